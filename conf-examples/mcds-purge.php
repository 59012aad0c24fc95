<?php
/*
 * Plugin Name: mcds purge
 * Description: Purges pages from mcds when their posts change.
 *
 * Copy this file to wp-content/mu-plugins/.  The plugin needs the configuration
 * wordpress.conf: it sends the tags of each page in a header, and purges pages
 * by tag in the location /purge of nginx.
 */

// the tags of a page: one for each post that it shows, and "lists" if it is a
// list of posts

add_action('template_redirect', function () {
    $tags = is_singular() ? [] : ['lists'];

    foreach ($GLOBALS['wp_query']->posts ?? [] as $post) {
        $tags[] = "post-$post->ID";
    }

    header('Cache-Tag: ' . implode(' ', array_slice($tags, 0, 100)));
}, 0);

// collects the posts that a request changes, and purges their pages once, at
// the end of the request; after a change to a menu or a template, all pages

add_action('clean_post_cache', function ($id, $post) {
    static $changed = [];

    if ($post->post_type == 'revision') {
        return;
    }

    if (!$changed) {
        add_action('shutdown', function () use (&$changed) {
            mcds_purge($changed);
        });
    }

    $changed[$id] = $post->post_type;
}, 10, 2);

add_action('customize_save_after', 'mcds_purge_all');
add_action('switch_theme', 'mcds_purge_all');

function mcds_purge($changed)
{
    $everywhere = ['nav_menu_item', 'wp_block', 'wp_global_styles',
                   'wp_navigation', 'wp_template', 'wp_template_part'];
    $purge = [];

    foreach ($changed as $id => $type) {
        $post = get_post($id);

        // the pages of a post that is no longer public must not be served stale

        if ($post && $post->post_status == 'publish' && !$post->post_password) {
            $purge['invalidate'][] = "tag=lists&tag=post-$id";
        } else {
            $purge['delete'][] = "tag=post-$id";
        }
    }

    if (array_intersect($changed, $everywhere) || count($changed) > 60) {
        $purge['invalidate'] = ['all=1'];
    }

    // nginx accepts up to 200 tags in a request

    foreach ($purge as $mode => $what) {
        foreach (array_chunk($what, 100) as $some) {
            mcds_purge_send("mode=$mode&" . implode('&', $some));
        }
    }
}

function mcds_purge_all()
{
    mcds_purge_send('all=1');
}

function mcds_purge_send($what)
{
    $url = defined('MCDS_PURGE') ? MCDS_PURGE : 'http://127.0.0.1:8081/purge';
    $answer = wp_remote_post($url, ['body' => $what, 'timeout' => 2]);

    if (wp_remote_retrieve_response_code($answer) != 200) {
        error_log("mcds: not purged: $what");
    }
}
