/* Copyright (C) mcds authors */

/*
 * What the page is made of: elements, numbers as texts, charts and tables.
 * All texts of others (names, keys) go through textContent.
 */

'use strict';

const SVG = 'http://www.w3.org/2000/svg';
// what charts may show: seconds, and ms without an answer that are a gap

const RANGES = {
    recent: { seconds: 120, gap: 2500, name: 'the last two minutes',
        labels: ['2 min ago', '1 min'] },
    hour: { seconds: 3600, gap: Infinity, name: 'the last hour',
        labels: ['1 h ago', '30 min'] },
};

let range = RANGES.recent;

// from the cache, from the origin, and neither, as they lie on each other

const STATUSES = [
    ['hit', 'Hit'], ['revalidated', 'Revalidated'], ['stale', 'Stale'],
    ['updating', 'Updating'], ['miss', 'Miss'], ['expired', 'Expired'],
    ['bypass', 'Bypass'], ['other', 'Other'],
];

const MARKS = {
    well: '●', idle: '○', off: '○', errors: '▲', down: '■',
};

const $ = (id) => document.getElementById(id);

// fetch refuses an address with user and password

const address = (uri) => Object.assign(new URL(uri, location.href),
    { username: '', password: '' });


// elements

function el(tag, props, ...children) {
    const e = document.createElement(tag);

    for (const [name, value] of Object.entries(props || {})) {
        if (name === 'class') {
            e.className = value;
        } else {
            e.setAttribute(name, value);
        }
    }

    e.append(...children);
    return e;
}

function svg(tag, attrs) {
    const e = document.createElementNS(SVG, tag);

    for (const [name, value] of Object.entries(attrs || {})) {
        e.setAttribute(name, value);
    }

    return e;
}

function say(e, text) {
    if (e.textContent !== text) {
        e.textContent = text;
    }
}

function set(e, name, value) {
    if (e.getAttribute(name) !== value) {
        e.setAttribute(name, value);
    }
}


// numbers as texts

function short(n) {
    for (const [size, unit] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
        if (n >= size) {
            const shown = n / (unit === 'k' ? 1e3 : size);
            return shown.toFixed(shown < 100 ? 1 : 0) + unit;
        }
    }

    return n === 0 ? '0' : n < 0.05 ? '<0.1'
        : n < 9.95 ? n.toFixed(1).replace(/\.0$/, '') : n.toFixed(0);
}

function rate(n) {
    return n === null || n === undefined ? '–' : short(n);
}

function percent(part, whole) {
    if (!whole) {
        return '–';
    }

    const n = 100 * part / whole;
    return n === 100 || n === 0 ? n + ' %'
        : Math.min(99.9, Math.max(0.1, n)).toFixed(1) + ' %';
}

function micro(us) {
    return us === null ? '–' : us === Infinity ? '>1 s'
        : us < 1000 ? us.toFixed(0) + ' µs'
        : us < 1e6 ? (us / 1e3).toFixed(us < 1e4 ? 1 : 0) + ' ms'
        : (us / 1e6).toFixed(1) + ' s';
}

function milli(ms) {
    return ms === null ? '–' : ms === Infinity ? '>1 min' : micro(ms * 1000);
}

function bytes(n) {
    for (const [size, unit] of [[1e9, ' GB'], [1e6, ' MB'], [1e3, ' KB']]) {
        if (n >= size) {
            return (n / size).toFixed(n < 9.95 * size ? 1 : 0) + unit;
        }
    }

    return n.toFixed(0) + ' B';
}

// as memcached's -m is given

function memory(n) {
    const mega = n / 2 ** 20;

    return mega < 1024 ? mega.toFixed(0) + ' MB'
        : (mega / 1024).toFixed(1).replace('.0', '') + ' GB';
}

function clock(ms) {
    return new Date(ms).toTimeString().slice(0, 8);
}

function span(seconds) {
    for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
        if (seconds >= size) {
            return Math.floor(seconds / size) + ' ' + unit;
        }
    }

    return Math.max(0, Math.floor(seconds)) + ' s';
}

function total(sums, names) {
    return (names || Object.keys(sums)).reduce(
        (sum, name) => sum + (sums[name] || 0), 0);
}

// what is there of some rates, in words

function words(sums) {
    return Object.keys(sums).filter((name) => sums[name] > 0)
        .sort((a, b) => sums[b] - sums[a])
        .map((name) => name.replace(/_/g, ' ') + ' ' + rate(sums[name]))
        .join(', ');
}


// a chart of the range, with its legend

const charts = [];
let cursor = null;            // a time that is pointed at

class Chart {
    constructor(box, title, series, options) {
        Object.assign(this, { title, series, options, samples: [] });

        this.svg = svg('svg', { role: 'img', tabindex: '-1' });
        this.at = el('li', { class: 'at' });
        this.values = series.map(() => el('b', null, '–'));

        const legend = series.map(([key, label], i) => {
            const sign = svg('svg', { 'aria-hidden': 'true',
                viewBox: '0 0 14 12' });

            sign.append(options.stack
                ? svg('rect', { width: 14, height: 12, rx: 2,
                    class: 's-' + key })
                : svg('path', { d: 'M0 6H14', class: this.lineClass(i) }));

            return el('li', null, sign, el('span', null, label),
                this.values[i]);
        });

        const list = el('ul', { class: 'legend' }, ...legend, this.at);

        box.append(el('div', { class: 'chart' }, this.svg), list);

        const point = (event) => {
            const { left, width } = this.svg.getBoundingClientRect();
            const part = (event.clientX - left - this.left)
                / (width - this.left);

            cursor = this.now - (1 - part) * range.seconds * 1000;
            charts.forEach((chart) => chart.draw());
        };

        this.svg.addEventListener('pointermove', point);
        this.svg.addEventListener('pointerdown', point);
        this.svg.addEventListener('pointerleave', () => {
            cursor = null;
            charts.forEach((chart) => chart.draw());
        });

        new ResizeObserver(() => this.draw()).observe(this.svg);
        charts.push(this);
    }

    lineClass(i) {
        return 'line s-' + ['one', 'two'][i] + (i ? ' dash' : '');
    }

    // samples: [{ at, values: { key: number or null } or null for a gap }]

    show(samples, now) {
        this.samples = samples.filter(
            (s) => s.at > now - range.seconds * 1000);
        this.now = now;
        this.draw();
    }

    draw() {
        const { width, height } = this.svg.getBoundingClientRect();

        if (!width || !this.now) {
            return;
        }

        this.scale(width, height);
        set(this.svg, 'viewBox', `0 0 ${width} ${height}`);

        const parts = this.gaps().concat(this.grid());

        for (const run of this.runs()) {
            parts.push(...(this.options.stack ? this.areas(run)
                : this.lines(run)));
        }

        if (this.nothing) {
            const note = svg('text', {
                x: (width + this.left) / 2, y: height / 2,
                'text-anchor': 'middle', class: 'nothing' });
            note.textContent = this.options.nothing;
            parts.push(note);
        }

        const pointed = this.pointed();

        if (cursor !== null && pointed) {
            const x = this.x(pointed.at);
            parts.push(svg('path', { class: 'cross',
                d: `M${x} 0V${this.bottom}` }));
        }

        this.svg.replaceChildren(...parts);
        this.tell(pointed);
    }

    tell(sample) {
        const values = sample && sample.values;

        const told = this.series.map(([key, label], i) => {
            const text = values ? this.options.text(values[key]) : '–';

            say(this.values[i], text);
            return label + ' ' + text;
        });

        say(this.at, cursor === null || !sample ? '' : clock(sample.at));
        set(this.svg, 'aria-label', `${this.title}, ${range.name}; now `
            + told.join(', '));
    }

    pointed() {
        if (cursor === null) {
            return this.samples[this.samples.length - 1];
        }

        return this.samples.reduce((best, s) => !best
            || Math.abs(s.at - cursor) < Math.abs(best.at - cursor)
            ? s : best, null);
    }

    scale(width, height) {
        const keys = this.series.map(([key]) => key);

        const shown = this.samples.filter((s) => s.values).flatMap((s) => {
            const all = keys.map((key) => s.values[key])
                .filter((n) => Number.isFinite(n) && n > 0);

            return this.options.stack ? all.reduce((a, b) => a + b, 0) : all;
        });

        const most = Math.max(0, ...shown);

        this.width = width;
        this.bottom = height - 16;
        this.nothing = most === 0;
        this.low = 0;
        this.left = 0;

        if (this.options.log && most > 0) {
            this.low = 10 ** Math.floor(Math.log10(Math.min(...shown)));
            this.high = Math.max(this.low * 100,
                10 ** Math.ceil(Math.log10(most)));
            this.ticks = [];

            for (let n = this.low; n <= this.high * 1.01; n *= 10) {
                this.ticks.push(n);
            }

        } else {
            this.even(most);
        }

        // room for the longest of their texts

        this.left = 8 + 6.5 * Math.max(...this.ticks.map((n) =>
            this.options.text(n).length));
    }

    // ticks at even distances, from 0 on

    even(most) {
        const rough = (most || 1) / 3;
        const size = 10 ** Math.floor(Math.log10(rough));
        const step = [1, 2, 2.5, 5, 10].find((n) => n * size >= rough) * size;

        this.high = Math.ceil((most || step) / step) * step;
        this.ticks = [0];

        for (let n = step; n <= most + step * 0.99; n += step) {
            this.ticks.push(n);
        }
    }

    x(at) {
        return +(this.width - (this.width - this.left)
            * (this.now - at) / (range.seconds * 1000)).toFixed(1);
    }

    y(n) {
        const part = this.low
            ? Math.log(n / this.low) / Math.log(this.high / this.low)
            : n / this.high;

        return +(this.bottom - (this.bottom - 12)
            * Math.min(1, Math.max(0, part))).toFixed(1);
    }

    grid() {
        const parts = [];

        for (const n of this.ticks) {
            const label = svg('text', { x: this.left - 6, y: this.y(n) + 4,
                'text-anchor': 'end' });

            label.textContent = this.options.text(n);
            parts.push(label, svg('path', { class: 'grid',
                d: `M${this.left} ${this.y(n)}H${this.width}` }));
        }

        for (const [back, anchor, text] of [
            [range.seconds, 'start', range.labels[0]],
            [range.seconds / 2, 'middle', range.labels[1]],
            [0, 'end', 'now']])
        {
            const label = svg('text', { x: this.x(this.now - back * 1000),
                y: this.bottom + 14, 'text-anchor': anchor });

            label.textContent = text;
            parts.push(label);
        }

        return parts;
    }

    // times without an answer, once there was one

    gaps() {
        const parts = [];
        let last = null;

        const gap = (from, to) => {
            if (to - from > range.gap) {
                parts.push(svg('rect', { class: 'gap', x: this.x(from), y: 12,
                    width: Math.max(0, this.x(to) - this.x(from)),
                    height: this.bottom - 12 }));
            }
        };

        for (const s of this.samples.filter((one) => one.values)) {
            if (last) {
                gap(last, s.at);
            }

            last = s.at;
        }

        if (last) {
            gap(last, this.now);
        }

        return parts;
    }

    runs() {
        const runs = [];
        let run = null;

        for (const s of this.samples) {
            if (!s.values) {
                run = null;
                continue;
            }

            if (!run || s.at - run[run.length - 1].at > range.gap) {
                run = [];
                runs.push(run);
            }

            run.push(s);
        }

        return runs;
    }

    areas(run) {
        const parts = [];
        let floor = run.map(() => 0);

        for (const [key] of this.series) {
            const level = run.map((s, i) => floor[i] + (s.values[key] || 0));

            if (level.some((n, i) => n > floor[i])) {
                const up = run.map((s, i) => this.x(s.at) + ' '
                    + this.y(level[i]));
                const down = run.map((s, i) => this.x(s.at) + ' '
                    + this.y(floor[i])).reverse();

                parts.push(svg('path', { class: 'area s-' + key,
                    d: 'M' + up.concat(down).join('L') + 'Z' }));
            }

            floor = level;
        }

        return parts;
    }

    lines(run) {
        return this.series.map(([key], i) => {
            let d = '';
            let pen = 'M';

            for (const s of run) {
                const n = s.values[key];

                if (n === null || n === undefined) {
                    pen = 'M';
                    continue;
                }

                d += pen + this.x(s.at) + ' ' + this.y(n);
                pen = 'L';
            }

            return svg('path', { class: this.lineClass(i), d });
        });
    }
}


// a table whose rows stay as long as what they are about

class Table {
    constructor(caption, columns) {
        this.rows = new Map();
        this.columns = columns;
        this.body = el('tbody');
        this.caption = el('caption');

        this.table = el('table', null, this.caption, el('thead', null,
            el('tr', null, ...columns.map(([title, more]) =>
                el('th', { scope: 'col', class: more || '' }, title)))),
            this.body);

        if (caption) {
            this.caption.append(...caption);
        } else {
            this.caption.remove();
        }
    }

    // rows: [[key, cells, attributes]], a cell is a text or { text, sub, ... }

    show(rows) {
        const gone = new Set(this.rows.keys());

        rows.forEach(([key, cells, attrs], place) => {
            let row = this.rows.get(key);

            if (!row) {
                row = el('tr', null, ...this.columns.map(([, more], i) =>
                    i === 0 ? el('th', { scope: 'row' })
                        : el('td', { class: more || '' })));
                this.rows.set(key, row);
            }

            gone.delete(key);

            if (this.body.children[place] !== row) {
                this.body.insertBefore(row, this.body.children[place] || null);
            }

            Object.entries(attrs || {}).forEach(([n, v]) => set(row, n, v));
            cells.forEach((cell, i) => fill(row.children[i], cell));
        });

        for (const key of gone) {
            this.rows.get(key).remove();
            this.rows.delete(key);
        }
    }
}

function fill(td, cell) {
    const { text, sub, bad, state, mix, href } = typeof cell === 'string'
        ? { text: cell } : cell;

    if (!td.firstChild) {
        td.append(href ? el('a', { href }) : el('span'),
            el('span', { class: 'sub' }));
    }

    const [main, below] = td.children;

    say(main, state ? MARKS[state] + ' ' + text : text);
    say(below, sub || '');
    below.hidden = !sub;
    below.classList.toggle('bad', !!bad);
    td.classList.toggle('bad', !!bad);

    if (state) {
        set(main, 'class', 'state');
        set(main, 'data-state', state);
    }

    if (mix) {
        shares(td, mix);
    }
}

// a bar of the statuses of a cache

function shares(td, sums) {
    let bar = td.querySelector('.mix');

    if (!bar) {
        bar = el('div', { class: 'mix', 'aria-hidden': 'true' },
            ...STATUSES.map(([key]) => el('i', { class: 'b-' + key })));
        td.append(bar);
    }

    const all = total(sums);

    STATUSES.forEach(([key], i) => {
        bar.children[i].style.width
            = all ? 100 * (sums[key] || 0) / all + '%' : '0';
    });
}

// what a box says while it has nothing to show

function empty(box, text) {
    let p = box.querySelector(':scope > .empty');

    if (!p) {
        p = el('p', { class: 'empty' });
        box.append(p);
    }

    p.hidden = !text;
    say(p, text || '');
}
