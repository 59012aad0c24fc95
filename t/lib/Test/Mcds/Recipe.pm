package Test::Mcds::Recipe;

# Copyright (C) mcds authors

# Common parts of the tests of docs/recipes/: a configuration of conf-examples
# or of a recipe with the ports and folders of a test, PHP-FPM, MariaDB, a load
# balancer, a browser's cookies.

use warnings;
use strict;

use Exporter 'import';
use FindBin;
use POSIX ();

our @EXPORT = qw/ slurp fenced places fpm mariadb balancer stop run /;

my $t;


sub new {
    my ($class, $test) = @_;

    $t = $test;

    return $class;
}


sub slurp {
    my ($path) = @_;

    open my $fh, '<', $path or die "$path: $!\n";
    local $/;

    return <$fh>;
}


# the blocks of code in a language, such as "nginx", in a page of the manual

sub fenced {
    my ($path, $language) = @_;

    return slurp($path) =~ /^ *```$language\n(.*?)^ *```$/gms;
}


# turns a complete configuration of nginx into one for Test::Mcds, then replaces
# the first text of each pair in @replace by the second, or dies if the
# configuration does not contain the first

sub places {
    my ($conf, @replace) = @_;

    $conf =~ s/^load_module .*;/%%GLOBALS%%/m or die "no load_module\n";
    $conf =~ s/^user .*;\n//m;
    $conf =~ s/^http \{/http {\n%%HTTP%%/m or die "no http\n";
    $conf =~ s/worker_processes auto;/worker_processes 2;/ or die;

    while (my ($what, $by) = splice @replace, 0, 2) {
        $conf =~ s/\Q$what\E/$by/g or die "not in the configuration: $what\n";
    }

    return $conf;
}


# starts PHP-FPM on $dir/php.sock, as the user "nobody" if the test runs as root

sub fpm {
    my ($fpm) = grep { -x } </usr/sbin/php-fpm*>;
    my $dir = $t->dir();
    my $root = $> == 0 ? "user = nobody\ngroup = nogroup" : '';

    $t->write_file('fpm.conf', <<"EOT");
[global]
error_log = $dir/fpm.log
daemonize = no

[www]
$root
listen = $dir/php.sock
listen.mode = 0666
pm = static
pm.max_children = 6
clear_env = yes
catch_workers_output = yes
php_admin_value[upload_tmp_dir] = $dir
php_admin_value[session.save_path] = $dir
php_admin_value[error_log] = $dir/php.log
php_admin_flag[log_errors] = on
EOT

    return $t->helper('fpm', sub { -S "$dir/php.sock" }, $fpm, '-R', '-y',
        "$dir/fpm.conf");
}


# starts MariaDB on $dir/mysql.sock with an empty database of the given name,
# independent of a MariaDB of the system

sub mariadb {
    my ($database) = @_;

    my $dir = $t->dir();
    my $user = getpwuid $>;

    run('mariadb-install-db', '--no-defaults', "--datadir=$dir/mysql",
        "--user=$user", '--auth-root-authentication-method=normal',
        '--skip-test-db');

    my $pid = $t->helper('mariadb', sub {
        -S "$dir/mysql.sock"
            && system("mariadb-admin --no-defaults -S $dir/mysql.sock -u root "
                . "ping > /dev/null 2>&1") == 0;
    }, '/usr/sbin/mariadbd', '--no-defaults', "--datadir=$dir/mysql",
        "--socket=$dir/mysql.sock", "--user=$user", '--skip-networking',
        '--innodb-flush-log-at-trx-commit=0', '--innodb-buffer-pool-size=32M',
        "--pid-file=$dir/mysql.pid");

    chmod 0755, $dir;
    run('mariadb', '--no-defaults', '-S', "$dir/mysql.sock", '-u', 'root',
        '-e', "CREATE DATABASE $database");

    return $pid;
}


# starts a load balancer: nginx without mcds in front of the hosts, to which it
# claims, by X-Forwarded-Proto, to terminate TLS

sub balancer {
    my (@hosts) = @_;

    my $servers = join ' ', map { 'server 127.0.0.1:' . $_->port() . ';' }
        @hosts;

    return $t->nginx('balancer', <<"EOT");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    upstream hosts { $servers }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            proxy_bind         127.0.0.5;
            proxy_http_version 1.1;
            proxy_set_header   Connection "";
            proxy_set_header   Host \$host;
            proxy_set_header   X-Forwarded-For \$proxy_add_x_forwarded_for;
            proxy_set_header   X-Forwarded-Proto https;
            proxy_pass         http://hosts;
        }
    }
}
EOT
}


# runs a command that must succeed; returns its output

sub run {
    my (@cmd) = @_;

    my $pid = open(my $fh, '-|') // die "fork: $!\n";

    if (!$pid) {
        open STDERR, '>&', \*STDOUT;
        open STDIN, '<', '/dev/null';
        exec(@cmd) or POSIX::_exit(127);
    }

    local $/;
    my $said = <$fh> // '';
    close $fh or die "@cmd: $?\n$said\n";

    return $said;
}


sub stop {
    for my $pid (@_) {
        kill 'TERM', $pid;
        waitpid $pid, 0;
        $t->gone($pid);
    }
}


# A client that keeps cookies, as a browser does: get() and post() return the
# response.  Fields: agent (its User-Agent), host, test

package Test::Mcds::Recipe::Browser;


sub new {
    my ($class, %o) = @_;

    return bless { agent => 'Mozilla/5.0', jar => {}, %o }, $class;
}


sub get {
    my ($self, $where, $uri, %o) = @_;

    my %headers = ('User-Agent' => $self->{agent}, %{$o{headers} // {}});

    $headers{Cookie} = join '; ', map { "$_=$self->{jar}{$_}" }
        sort keys %{$self->{jar}} if %{$self->{jar}};
    delete $headers{$_} for grep { !defined $headers{$_} } keys %headers;

    my $r = $where->get($uri, host => $self->{host},
        map({ defined $o{$_} ? ($_ => $o{$_}) : () } qw/ method body local /),
        headers => \%headers, timeout => 120 * $self->{test}->slow());

    for my $line ($r->all('Set-Cookie')) {
        my ($name, $value, $rest) = $line =~ /(?:^|: )([^=;\s]+)=([^;]*)(.*)/
            or next;

        if ($value eq '' || $rest =~ /Max-Age=0|expires=[^;]*19[67]\d/i) {
            delete $self->{jar}{$name};
        } else {
            $self->{jar}{$name} = $value;
        }
    }

    return $r;
}


sub post {
    my ($self, $where, $uri, $form, %o) = @_;

    my $body = ref $form ? join '&', map {
        $_ . '=' . ($form->{$_} =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger)
    } sort keys %$form : $form;

    return $self->get($where, $uri, method => 'POST', body => $body, %o,
        headers => { 'Content-Type' => ref $form
            ? 'application/x-www-form-urlencoded' : 'application/json',
            %{$o{headers} // {}} });
}


1;
