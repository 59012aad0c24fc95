/* Copyright (C) mcds authors */

/*
 * The other hosts of the site, which mcds_status_host names: each is asked for
 * its JSON as this one is, through a location of this one.
 */

'use strict';

const others = new Map();     // by name

class Host {
    constructor({ name, uri }) {
        Object.assign(this, { name, uri, frames: [], since: Date.now(),
            why: '', busy: false });

        this.url = address(uri);
        this.url.searchParams.set('format', 'json');
    }

    async ask() {
        if (this.busy) {
            return;
        }

        this.busy = true;
        const { json, why } = await get(this.url);
        this.busy = false;

        if (json) {
            this.frames = joined(this.frames, indexed(json));
            this.why = '';
            this.since = Date.now();
        } else {
            this.frames = [];
            this.why = why;
        }
    }

    row() {
        const name = { text: this.name, href: this.uri };

        if (this.why) {
            return [name, { text: 'no numbers', state: 'down', bad: true,
                sub: `${this.why} since ${clock(this.since)}` },
            '–', '–', '–', '–', '–'];
        }

        return this.frames.length < 2
            ? [name, { text: 'waiting', state: 'idle' },
                '–', '–', '–', '–', '–']
            : shown(name, figures(this.frames));
    }
}

// the rates of a host, from the first of these answers to the last

function figures(list) {
    const [then, now] = [list[0], list[list.length - 1]];
    const seconds = (now.json.time - then.json.time) || 1;
    const sums = { requests: 0, cached: 0, asked: 0, origin: 0,
        operations: 0, servers: 0, down: 0 };

    for (const cache of sample(now, then).caches.values()) {
        add(sums, { requests: total(cache.statuses),
            cached: total(cache.statuses, CACHED),
            asked: total(cache.statuses, ASKED), origin: cache.origin });
    }

    for (const [key, server] of now.all.servers) {
        if (server.statistics) {
            const s = serverOf(now, '', server, then.all.servers.get(key),
                seconds);

            add(sums, { operations: s.operations, servers: 1,
                down: s.state === 'down' ? 1 : 0 });
        }
    }

    return sums;
}

function shown(name, sums) {
    const well = sums.servers - sums.down;

    return [name, sums.down
        ? { text: `${sums.down} down`, state: 'errors' }
        : { text: 'healthy', state: 'well' },
    rate(sums.requests), percent(sums.cached, sums.asked), rate(sums.origin),
    rate(sums.operations), `${well} of ${sums.servers}`];
}

// hosts: as JSON names them; what is wrong with them is returned

function drawHosts(hosts) {
    const names = hosts.map(({ name }) => name);

    $('hosts').parentNode.hidden = !hosts.length;

    for (const name of [...others.keys()]) {
        if (!names.includes(name)) {
            others.delete(name);
        }
    }

    if (!hosts.length) {
        return [];
    }

    const rows = [['', shown('this host', figures(frames))]];
    const list = [];

    for (const host of hosts) {
        if (!others.has(host.name) || others.get(host.name).uri !== host.uri) {
            others.set(host.name, new Host(host));
        }

        const one = others.get(host.name);

        rows.push(['/' + host.name, one.row()]);
        one.ask();

        if (one.why) {
            list.push(['host\n' + host.name, `The page of ${host.name}`,
                ` cannot be read: ${one.why} since ${clock(one.since)}.`,
                'bad']);
        }
    }

    table($('hosts'), '', null, [['Host'], ['State', 'text'],
        ['Requests /s'], ['From cache'], ['Origin /s'],
        ['Ops /s', 'more'], ['Servers up', 'more']]).show(rows);

    return list;
}
