/* Copyright (C) mcds authors */

/*
 * Asks the location of this page for JSON each second and draws what has
 * changed.
 */

'use strict';

const PERIOD = 1000;          // between two questions, ms
const PATIENCE = 1500;        // for an answer, ms
const REFRESH = 20000;        // of the last hour, ms
const WINDOW = 3;             // seconds of the rates in tables

const CACHED = ['hit', 'revalidated', 'stale', 'updating'];
const ASKED = CACHED.concat('miss', 'expired');


// changes between two answers: now and then are the same thing in both

function rates(now, then, seconds) {
    const result = {};

    for (const [name, value] of Object.entries(now || {})) {
        if (typeof value === 'number') {
            const before = then && then[name];
            result[name] = typeof before === 'number'
                ? Math.max(0, value - before) / seconds : 0;
        }
    }

    return result;
}

// a histogram of what came in between: [[bound, so many up to it], ...]

function histogram(now, then) {
    if (!now) {
        return null;
    }

    const le = now.le_us || now.le_ms || {};
    const before = then ? then.le_us || then.le_ms : {};

    const list = Object.keys(le).map(Number).sort((a, b) => a - b)
        .map((bound) => [bound, le[bound] - (before[bound] || 0)]);

    list.push([Infinity, now.count - (then ? then.count : 0)]);
    return list;
}

function merged(a, b) {
    return !a ? b : !b ? a : a.map(([bound, n], i) => [bound, n + b[i][1]]);
}

// null when nothing came; Infinity when it is above all bounds

function quantile(list, q) {
    const all = list ? list[list.length - 1][1] : 0;

    if (all <= 0) {
        return null;
    }

    let low = 0;
    let below = 0;

    for (const [bound, n] of list) {
        if (n >= q * all) {
            return bound === Infinity ? bound
                : low + (bound - low) * (q * all - below) / (n - below || 1);
        }

        [low, below] = [bound, n];
    }

    return Infinity;
}


// what is to be drawn of an answer: each thing by its identity

function indexed(json) {
    const all = { servers: new Map(), caches: new Map(), data: new Map() };

    for (const pool of json.pools || []) {
        for (const server of pool.servers) {
            all.servers.set(pool.name + '\n' + server.name, server);
        }
    }

    for (const cache of json.caches || []) {
        all.caches.set(cache.name, cache);
    }

    for (const kind of ['counters', 'locks', 'logs', 'arrays', 'tables']) {
        for (const one of json[kind] || []) {
            all.data.set([kind, one.name, one.pool].join('\n'), one);
        }
    }

    return { json, all, at: Date.now() };
}

function statuses(cache, then, seconds) {
    const sums = rates(cache.requests, then && then.requests, seconds);
    const known = { other: 0 };

    for (const [name, value] of Object.entries(sums)) {
        if (ASKED.includes(name) || name === 'bypass') {
            known[name] = value;
        } else if (name !== 'none') {
            known.other += value;
        }
    }

    return known;
}

function add(to, from) {
    for (const [name, value] of Object.entries(from)) {
        to[name] = (to[name] || 0) + value;
    }
}


// the top: tiles, problems, is it alive

const tiles = {};

for (const [key, title] of [['requests', 'Requests'],
    ['ratio', 'From the cache'], ['origin', 'Origin requests'],
    ['waiting', 'Waits for a page'], ['operations', 'memcached operations'],
    ['latency', 'Response time, 99 %']])
{
    const parts = { value: el('span'), unit: el('span', { class: 'unit' }),
        note: el('p', { class: 'note' }) };

    parts.tile = el('div', { class: 'tile', 'data-tile': key },
        el('h2', null, title),
        el('p', { class: 'value' }, parts.value, parts.unit), parts.note);

    $('tiles').append(parts.tile);
    tiles[key] = parts;
}

function tile(key, value, unit, note, bad) {
    const t = tiles[key];

    say(t.value, value);
    say(t.unit, unit);
    say(t.note, note);
    t.tile.classList.toggle('bad', !!bad);
}

const problems = new Map();

// list: [[key, strong text, text, 'warn' or 'bad']]; those that stay are left
// alone, so that a screen reader tells each of them once

function complain(list) {
    const gone = new Set(problems.keys());

    for (const [key, strong, text, grade] of list) {
        let p = problems.get(key);

        if (!p) {
            p = el('p', { class: 'problem ' + grade }, el('strong'),
                el('span'));
            problems.set(key, p);
            $('problems').append(p);
        }

        gone.delete(key);
        say(p.children[0], strong);
        say(p.children[1], text);
    }

    for (const key of gone) {
        problems.get(key).remove();
        problems.delete(key);
    }

    const bad = list.some(([, , , grade]) => grade === 'bad');
    const color = bad ? '#d3344a' : list.length ? '#e5a93c' : '#2aa468';
    const sign = bad ? '<rect x="2" y="2" width="12" height="12"'
        : '<circle cx="8" cy="8" r="7"';

    document.title = (list.length ? `(${list.length}) ` : '') + 'mcds '
        + location.host;
    set($('icon'), 'href', 'data:image/svg+xml,' + encodeURIComponent(
        `<svg xmlns="${SVG}" viewBox="0 0 16 16">${sign} fill="${color}"/>`
        + '</svg>'));
}

function alive(state, text) {
    set($('live'), 'data-state', state);
    say($('live-text'), text);
}


// what is shown of an answer

const requests = new Chart($('c-requests'), 'Requests by cache status',
    STATUSES, { stack: true, text: rate, nothing: 'no traffic yet' });
const origin = new Chart($('c-origin'), 'Origin requests and builds',
    [['origin', 'Requests'], ['builds', 'Builds']],
    { text: rate, nothing: 'no requests' });
const latency = new Chart($('c-latency'), 'Response time of memcached',
    [['p50', 'Median'], ['p99', '99 %']],
    { text: (n) => micro(n === undefined ? null : n), log: true,
        nothing: 'no operations' });

let history = [];             // { at, caches: { name: .. }, p50, p99 }, or gap
let frames = [];              // the last answers
let past = [];                // of the last hour, as the charts want it
let pastAt = 0;               // when that was asked for
let chosen = '';              // a cache, or all

function cacheSample(cache, then, seconds) {
    const ended = rates(cache.built, then && then.built, seconds);

    return {
        statuses: statuses(cache, then, seconds),
        builds: total(ended),
        failed: ended.failed || 0,
        origin: rates({ n: cache.origin }, then && { n: then.origin },
            seconds).n || 0,
        waits: rates(cache.waits, then && then.waits, seconds),
        lacking: rates(cache.not_stored, then && then.not_stored, seconds),
        bytes: rates({ n: cache.bytes_served },
            then && { n: then.bytes_served }, seconds).n || 0,
        build: histogram(cache.build_time, then && then.build_time),
        wait: histogram(cache.wait_time, then && then.wait_time),
    };
}

function sample(now, then) {
    const seconds = (now.json.time - then.json.time) || 1;
    const caches = new Map();
    let hist = null;

    for (const [name, cache] of now.all.caches) {
        if (cache.statistics !== false) {
            caches.set(name, cacheSample(cache, then.all.caches.get(name),
                seconds));
        }
    }

    for (const [key, server] of now.all.servers) {
        const before = then.all.servers.get(key);
        hist = merged(hist, histogram(server.latency,
            before && before.latency));
    }

    return { at: now.at, caches, seconds, p50: quantile(hist, 0.5),
        p99: quantile(hist, 0.99) };
}

// of the cache that was chosen, or of all

function summed(s) {
    const result = { statuses: {}, origin: 0, builds: 0, waits: {},
        wait: null, bytes: 0, failed: 0 };

    for (const [name, cache] of s.caches) {
        if (chosen === '' || chosen === name) {
            add(result.statuses, cache.statuses);
            add(result.waits, cache.waits);
            result.origin += cache.origin;
            result.builds += cache.builds;
            result.failed += cache.failed;
            result.bytes += cache.bytes;
            result.wait = merged(result.wait, cache.wait);
        }
    }

    return result;
}

// the sums of the last hour as samples, with a gap where a reload has changed
// the caches and servers; the clocks of the host and the browser may differ

function samplesOf(list, ahead) {
    return list.slice(1).map((now, i) => {
        const then = list[i];
        const seconds = now.time - then.time;
        const hist = histogram(now.latency, then.latency);
        const at = now.time * 1000 + ahead;

        return now.set !== then.set ? { at, values: null } : { at, values: {
            ...statuses(now, then, seconds),
            origin: rates({ n: now.origin }, { n: then.origin }, seconds).n,
            builds: total(rates(now.built, then.built, seconds)),
            p50: quantile(hist, 0.5), p99: quantile(hist, 0.99),
        } };
    });
}

function drawCharts(now) {
    if (range === RANGES.hour) {
        charts.forEach((chart) => chart.show(past, now));
        return;
    }

    const of = (get) => history.map((s) => ({ at: s.at,
        values: s.caches ? get(s) : null }));

    requests.show(of((s) => summed(s).statuses), now);
    origin.show(of(summed), now);
    latency.show(of((s) => s), now);
}

function drawTiles(recent, servers) {
    const sums = summed(recent);
    const all = total(sums.statuses);
    const cached = total(sums.statuses, CACHED);
    const asked = total(sums.statuses, ASKED);
    const any = recent.caches.size > 0;

    tile('requests', any ? rate(all) : '–', any ? '/s' : '',
        any ? bytes(sums.bytes) + '/s from the cache' : 'nothing is cached');
    tile('ratio', percent(cached, asked).replace(' %', ''),
        asked ? '%' : '', asked ? rate(total(sums.statuses,
            ['stale', 'updating'])) + '/s are stale' : 'no traffic yet');
    tile('origin', any ? rate(sums.origin) : '–', any ? '/s' : '',
        any ? `${rate(sums.builds)}/s built` + (sums.failed
            ? `, ${rate(sums.failed)}/s failed` : '') : 'nothing is cached');

    const waits = total(sums.waits);

    tile('waiting', any ? rate(waits) : '–', any ? '/s' : '', waits
        ? 'median ' + milli(quantile(sums.wait, 0.5)) : 'no request waits');

    const well = servers.filter(({ state }) => state === 'well'
        || state === 'idle' || state === 'errors').length;
    const errors = servers.reduce((n, s) => n + s.errors, 0);

    tile('operations', servers.length
        ? rate(servers.reduce((n, s) => n + s.operations, 0)) : '–',
        servers.length ? '/s' : '', !servers.length ? 'no pool'
            : errors ? rate(errors) + '/s failed'
            : `${well} of ${servers.length} servers up`, errors > 0);

    const [value, unit] = micro(recent.p99).split(' ');

    tile('latency', value, unit || '', recent.p99 === null
        ? 'no operations'
        : `of memcached; median ${micro(recent.p50)}`);
}

function serverOf(now, pool, server, then, seconds) {
    const errors = rates(server.errors, then && then.errors, seconds);
    const operations = total(rates(server.operations,
        then && then.operations, seconds));
    const failing = total(errors);
    const { state, open_workers: open, open_since: since,
        next_probe: probe } = server.breaker;

    const seen = state === 'disabled' ? ['off', 'marked down']
        : open > 0 ? ['down', 'down']
        : failing > 0 ? ['errors', 'errors']
        : operations > 0 ? ['well', 'healthy'] : ['idle', 'idle'];

    return { pool, name: server.name, state: seen[0], text: seen[1], open,
        workers: now.json.workers, since, probe, operations, errors: failing,
        kinds: errors, why: cause(server.connections.lost,
            then && then.connections && then.connections.lost) };
}

// how full it is, and what it has to throw away for that

function memoryOf(now, then) {
    if (!now) {
        return '–';
    }

    const seconds = then ? now.time - then.time : 0;
    const lately = seconds > 0 ? (now.evictions - then.evictions) / seconds
        : 0;

    return { text: percent(now.bytes, now.limit), sub: 'of '
        + memory(now.limit) + (lately > 0 ? `, ${rate(lately)}/s evicted`
            : now.evictions ? `, ${short(now.evictions)} evicted` : '') };
}

const CAUSES = { closed: 'it refuses or closes connections',
    timeout: 'it does not respond in time',
    protocol: 'its replies are not those of memcached',
    tls: 'the TLS handshake fails',
    refused: 'it refuses the version, user or password' };

// what most connections were lost by, of late if any were

function cause(now, then) {
    const late = rates(now, then, 1);
    const sums = total(late) > 0 ? late : now || {};
    const [most] = Object.keys(sums).sort((a, b) => sums[b] - sums[a]);

    return CAUSES[most] || 'operations fail';
}

function drawServers(now, then) {
    const box = $('servers');
    const seconds = (now.json.time - then.json.time) || 1;
    const all = [];

    for (const pool of now.json.pools || []) {
        const rows = [];

        for (const server of pool.servers) {
            const key = pool.name + '\n' + server.name;
            const before = then.all.servers.get(key);

            if (!server.statistics) {
                rows.push([key, [server.name, { text: 'no statistics',
                    state: 'off', sub: 'mcds_zone is too small' }]]);
                continue;
            }

            const s = serverOf(now, pool.name, server, before, seconds);
            const found = rates({ hits: server.hits, misses: server.misses },
                before, seconds);
            const times = histogram(server.latency, before && before.latency);
            const median = quantile(times, 0.5);
            const moved = rates(server.bytes, before && before.bytes, seconds);

            all.push(s);
            rows.push([key, [
                server.name,
                { text: s.text, state: s.state,
                    sub: s.state !== 'down' ? ''
                        : 'since ' + clock(s.since * 1000)
                        + (s.open < s.workers
                            ? `, in ${s.open} of ${s.workers} workers` : ''),
                    bad: s.state === 'down' },
                { text: rate(s.operations), sub: found.hits + found.misses
                    ? percent(found.hits, found.hits + found.misses)
                    + ' found' : '' },
                { text: micro(quantile(times, 0.99)),
                    sub: median === null ? '' : 'median ' + micro(median) },
                { text: rate(s.errors), sub: words(s.kinds), bad: s.errors },
                memoryOf(server.memory, before && before.memory),
                { text: String(server.pending),
                    sub: `${server.connections.open} open` },
                { text: bytes(moved.received) + ' in',
                    sub: bytes(moved.sent) + ' out' },
            ], { 'data-state': s.state }]);
        }

        table(box, pool.name, [el('b', null, pool.name)], [['Server'],
            ['State', 'text'], ['Ops /s'], ['99 %', 'more'],
            ['Errors /s'], ['Memory', 'more'],
            ['Pending', 'more'], ['Traffic /s', 'more most']]).show(rows);
    }

    prune(box, (now.json.pools || []).map((pool) => pool.name));
    empty(box, all.length || (now.json.pools || []).length ? ''
        : 'No pool is configured. Declare servers with mcds_pool.');

    return all;
}

// the table of that name in a box, made when it is new

function table(box, name, caption, columns) {
    box.tables = box.tables || new Map();

    if (!box.tables.has(name)) {
        const made = new Table(caption, columns);

        box.tables.set(name, made);
        box.append(made.table);
    }

    return box.tables.get(name);
}

function prune(box, names) {
    for (const [name, made] of box.tables || []) {
        if (!names.includes(name)) {
            made.table.remove();
            box.tables.delete(name);
        }
    }
}

function drawCaches(now, recent) {
    const rows = [];

    for (const [name, cache] of now.all.caches) {
        const s = recent.caches.get(name);

        if (!s) {
            rows.push([name, [{ text: name, sub: 'mcds_zone is too small' },
                '–', '–', '–', '–', '–', '–', '–']]);
            continue;
        }

        const asked = total(s.statuses, ASKED);

        rows.push([name, [
            { text: name, mix: s.statuses },
            rate(total(s.statuses)),
            percent(total(s.statuses, CACHED), asked),
            rate(s.origin),
            { text: milli(quantile(s.build, 0.5)),
                sub: s.failed ? rate(s.failed) + '/s failed' : '',
                bad: s.failed },
            { text: rate(total(s.lacking)), sub: words(s.lacking) },
            { text: rate(total(s.waits)), sub: words(s.waits) },
            bytes(s.bytes),
        ]]);
    }

    if (rows.length) {
        table($('caches'), '', null, [['Cache'], ['Requests'],
            ['From cache'], ['Origin', 'more'], ['Build', 'more'],
            ['Not stored', 'more'], ['Waits', 'more'],
            ['Served', 'more']]).show(rows);
    } else {
        prune($('caches'), []);
    }

    empty($('caches'), rows.length ? ''
        : 'No page is cached. Locations with mcds_cache appear here.');

    const names = [''].concat([...now.all.caches.keys()]);
    const options = [...$('cache').options].map((o) => o.value);

    $('cache').parentNode.hidden = names.length < 3 || range === RANGES.hour;

    if (names.length !== options.length
        || names.join('\n') !== options.join('\n'))
    {
        $('cache').replaceChildren(...names.map((name) => {
            const option = el('option', null, name || 'all');

            option.value = name;
            return option;
        }));

        chosen = names.includes(chosen) ? chosen : '';
        $('cache').value = chosen;
    }
}

// counters that are more than one number

const KINDS = { visitors: 'visitor counter', keys: 'counters',
    top: 'list of counters' };

function drawData(now, then) {
    const seconds = (now.json.time - then.json.time) || 1;
    const rows = [];

    for (const [key, one] of now.all.data) {
        const before = then.all.data.get(key);
        const kind = KINDS[one.type] || key.split('\n')[0].replace(/s$/, '');
        const sub = kind + (one.pool ? ', ' + one.pool : '');

        if (one.statistics === false) {
            rows.push([key, [{ text: one.name, sub }, '–', '–']]);
            continue;
        }

        const done = Object.assign({}, ...['operations', 'requests', 'lines']
            .map((name) => rates(one[name], before && before[name], seconds)));
        const bad = rates(one.failures, before && before.failures, seconds);

        for (const name of ['lost', 'unavailable']) {
            const n = name in done ? done[name]
                : rates({ n: one[name] }, before && { n: before[name] },
                    seconds).n;

            delete done[name];
            bad[name] = n || 0;
        }

        rows.push([key, [
            { text: one.name, sub },
            { text: rate(total(done)), sub: words(done) },
            { text: rate(total(bad)), sub: words(bad), bad: total(bad) },
        ]]);
    }

    if (rows.length) {
        table($('data'), '', null, [['Name'], ['Operations /s'],
            ['Failures /s']]).show(rows);
    } else {
        prune($('data'), []);
    }

    empty($('data'), rows.length ? ''
        : 'The configuration has none of these.');
}

function drawHot(box, list, nothing) {
    let ol = box.querySelector('ol');

    if (!ol) {
        ol = el('ol', { class: 'hot' });
        box.append(ol);
    }

    list = list.slice(0, 10);

    while (ol.children.length > list.length) {
        ol.lastChild.remove();
    }

    list.forEach(({ key, rate: n, value, seen }, i) => {
        let li = ol.children[i];

        if (!li) {
            li = el('li', null, el('div', null, el('bdi'), el('b'),
                el('span')),
                el('div', { class: 'bar', 'aria-hidden': 'true' }, el('i')));
            ol.append(li);
        }

        const often = rate(n) + '/s';
        const number = value !== undefined;

        say(li.querySelector('bdi'), key);
        set(li.querySelector('bdi'), 'title', key);
        say(li.querySelector('b'), number ? value.toLocaleString('en-US')
            : often);
        set(li.querySelector('b'), 'title', number
            ? 'seen at ' + clock(seen * 1000) : '');
        say(li.querySelector('span'), number ? often : '');
        li.querySelector('i').style.width = 100 * n / list[0].rate + '%';
    });

    empty(box, list.length ? '' : nothing);
}

function troubles(servers) {
    const list = [];

    for (const s of servers) {
        const name = `memcached ${s.name} of pool ${s.pool}`;
        const key = s.pool + '\n' + s.name;

        if (s.state === 'down') {
            list.push(['down\n' + key, name + ' is down',
                ` since ${clock(s.since * 1000)}: ${s.why}.`
                + ' Requests are answered without it. nginx tries it again'
                + ` at ${clock(s.probe * 1000)}.`, 'bad']);

        } else if (s.state === 'errors') {
            list.push(['errors\n' + key, name + ' has errors',
                ': ' + Object.keys(s.kinds).filter((k) => s.kinds[k])
                    .sort().join(', ').replace(/_/g, ' ') + '.', 'warn']);
        }
    }

    return list;
}

function draw() {
    const now = frames[frames.length - 1];
    const { json } = now;

    say($('host'), location.host);
    say($('about'), `mcds ${json.version}, nginx ${json.nginx}, `
        + `${json.workers} ${json.workers === 1 ? 'worker' : 'workers'}, `
        + `counts for ${span(json.time - json.since)}, configuration `
        + `${json.generation} for ${span(json.time - json.loaded)}`);

    const then = frames[0];
    const recent = sample(now, then);
    const servers = drawServers(now, then);

    drawCaches(now, recent);
    drawTiles(recent, servers);
    drawCharts(now.at);
    drawData(now, then);

    const hot = json.hot || {};

    drawHot($('pages'), hot.pages || [], 'No page was requested recently.');
    drawHot($('counters'), hot.counters || [],
        'No counter was updated recently.');

    const visitors = hot.visitors || [];

    $('visitors').parentNode.hidden = !visitors.length;
    drawHot($('visitors'), visitors, '');

    complain(troubles(servers).concat(drawHosts(json.hosts || [])));
}


// asking

const url = address(location.href);

url.hash = '';
url.searchParams.set('format', 'json');
$('json').href = url.href;
url.searchParams.set('memory', '1');

if ($('prometheus')) {        // where that format is to be had
    const text = new URL($('json').href);

    text.searchParams.set('format', 'prometheus');
    $('prometheus').href = text.href;
}

let timer = null;
let lost = null;              // no answer since then
let heard = Date.now();       // the last one

function remember(one) {
    history.push(one);
    history = history.filter((s) => s.at > Date.now()
        - (RANGES.recent.seconds + 2) * 1000);
}

// the last answers of a host, and one more

function joined(list, now) {
    const last = list[list.length - 1];

    // it may be another nginx, or was not asked for long

    const known = last && now.json.since === last.json.since
        && now.json.time >= last.json.time
        && now.json.time - last.json.time <= 10;

    return (known ? list : []).concat(now).slice(-WINDOW - 1);
}

function answered(json) {
    const now = indexed(json);

    frames = joined(frames, now);

    if (frames.length > 1) {
        remember(sample(now, frames[frames.length - 2]));
    }

    if (json.history) {
        past = samplesOf(json.history, now.at - json.time * 1000);
        pastAt = now.at;
    }

    lost = null;
    heard = now.at;
    alive('live', 'Live');
    draw();
}

function unanswered(why) {
    lost = lost || heard;
    frames = [];
    remember({ at: Date.now(), caches: null });

    alive('lost', `${why} since ${clock(lost)}`);
    complain([['lost', why, ` since ${clock(lost)}. The page shows the last `
        + 'known state.', 'bad']]);
    drawCharts(Date.now());
}

// JSON, or why there is none

async function get(from) {
    const stop = new AbortController();
    const limit = setTimeout(() => stop.abort(), PATIENCE);
    let why = 'nginx does not answer';

    try {
        const res = await fetch(from, { signal: stop.signal, cache: 'no-store',
            headers: { Accept: 'application/json' } });

        why = `nginx answers ${res.status}`;

        return { json: res.ok ? await res.json() : null, why };

    } catch (e) {
        return { json: null, why };

    } finally {
        clearTimeout(limit);
    }
}

async function ask() {
    const start = Date.now();

    if (range === RANGES.hour && start - pastAt > REFRESH) {
        url.searchParams.set('history', '1');
    } else {
        url.searchParams.delete('history');
    }

    const { json, why } = await get(url);

    next(Math.max(50, PERIOD - (Date.now() - start)));

    if (json) {
        answered(json);
    } else {
        unanswered(why);
    }
}

function next(ms) {
    clearTimeout(timer);
    timer = document.hidden ? null : setTimeout(ask, ms);
}

document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
        clearTimeout(timer);
        frames = [];
        alive('wait', 'Paused');
    } else {
        next(0);
    }
});

$('cache').addEventListener('change', (event) => {
    chosen = event.target.value;

    if (frames.length) {
        draw();
    }
});

$('range').addEventListener('change', (event) => {
    range = RANGES[event.target.value];
    pastAt = 0;
    cursor = null;
    next(0);

    if (frames.length) {
        draw();
    }
});

ask();
