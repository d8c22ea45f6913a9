// SPDX-License-Identifier: Apache-2.0
// A stacked chart of rates over time, in SVG, with a readout for pointer and keyboard, and sparklines.

import { el, replace, setText, svg } from './dom.js';
import { clock, count, day, exact } from './format.js';

const ORDER = ['allowed', 'delayed', 'shadowed', 'refused'];
const WORDS = { allowed: 'allowed', delayed: 'delayed', shadowed: 'shadow refusals', refused: 'refused' };
const LEFT = 44;
const BOTTOM = 20;
const TOP = 8;
const DAY = 86400; // seconds
const UNITS = { second: 's', minute: 'min', hour: 'h', day: 'd' };
let charts = 0;

/** Patterns besides colours: refused is hatched, shadowed dotted, delayed lined. */
function patterns(id) {
    const area = (kind) => svg('rect', { width: 6, height: 6, class: kind, 'fill-opacity': 0.28 });
    return svg(
        'defs',
        {},
        svg(
            'pattern',
            {
                id: `${id}-refused`,
                width: 6,
                height: 6,
                patternUnits: 'userSpaceOnUse',
                patternTransform: 'rotate(45)',
            },
            area('refused'),
            svg('rect', { width: 3, height: 6, class: 'refused' }),
        ),
        svg(
            'pattern',
            { id: `${id}-shadowed`, width: 6, height: 6, patternUnits: 'userSpaceOnUse' },
            area('shadowed'),
            svg('circle', { cx: 3, cy: 3, r: 1.5, class: 'shadowed' }),
        ),
        svg(
            'pattern',
            { id: `${id}-delayed`, width: 6, height: 4, patternUnits: 'userSpaceOnUse' },
            area('delayed'),
            svg('rect', { width: 6, height: 2, class: 'delayed' }),
        ),
    );
}

/** A shape with the pattern of its kind. The style goes before the colour of its class. */
function painted(tag, id, kind, attributes) {
    const shape = svg(tag, attributes);
    if (kind !== 'allowed') shape.style.fill = `url(#${id}-${kind})`;
    return shape;
}

/** A round number, not below `value`, whose half is round, too. */
function roundUp(value) {
    const power = 10 ** Math.floor(Math.log10(value || 1));
    return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((n) => n >= value * 0.999);
}

/** Areas as paths, one above the other, with gaps where nothing is known. `x` and `y` make coordinates of them. */
function areas(stack, length, x, y) {
    const floor = new Array(length).fill(0);
    return ORDER.map((kind) => {
        let path = '';
        let run = null;
        const finish = () => {
            if (run) path += `M${run.up.join('L')}L${run.down.reverse().join('L')}Z`;
            run = null;
        };
        for (let i = 0; i < length; i += 1) {
            const value = stack[kind][i];
            if (!value) {
                // Nothing, or nothing known: without an outline, which would be a line of its own at zero.
                finish();
                continue;
            }
            run ??= { up: [], down: [] };
            const low = y(floor[i]).toFixed(1);
            floor[i] += value;
            const high = y(floor[i]).toFixed(1);
            const from = x(i).toFixed(1);
            const to = x(i + 1).toFixed(1);
            run.up.push(`${from},${high}`, `${to},${high}`);
            run.down.push(`${from},${low}`, `${to},${low}`);
        }
        finish();
        return { kind, path };
    });
}

/** Stretches without data, as [from, to]. */
function gaps(column) {
    const found = [];
    column.forEach((value, i) => {
        if (value !== null) return;
        if (found.at(-1)?.[1] === i) found.at(-1)[1] = i + 1;
        else found.push([i, i + 1]);
    });
    return found;
}

/** Times to name on the axis: about one each 110 pixels, at round minutes, hours or days. */
function timeMarks(start, end, width) {
    const spans = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
    const days = Math.max(1, Math.ceil((84 / width) * ((end - start) / DAY)));
    const step = spans.find((span) => (span / (end - start)) * width >= 84) ?? days * DAY;
    const zone = new Date(end * 1000).getTimezoneOffset() * 60;
    const marks = [];
    for (let at = Math.ceil((start - zone) / step) * step + zone; at <= end; at += step) marks.push(at);
    return marks.map((at) => [at, step % DAY === 0 ? day(at) : clock(at, false)]);
}

/**
 * A chart of what was allowed, delayed, shadowed and refused per second. draw({ stack, end, seconds, per }) shows
 * others: `stack` has the rates by kind, `end` the Unix time of the end of the last, `seconds` how long each is, `per`
 * the unit of the rates, if it is not the second.
 */
export function stackedChart(label, height = 220) {
    charts += 1;
    const id = `chart${charts}`;
    const plot = svg('svg', {
        class: 'plot',
        height,
        tabindex: 0,
        role: 'slider',
        'aria-label': `${label}; arrow keys move through time`,
        'aria-valuemin': 0,
        'aria-valuemax': 0,
        'aria-valuenow': 0,
        'aria-valuetext': 'no data yet',
    });
    const time = el('span', { class: 'time' });
    const values = Object.fromEntries(ORDER.map((kind) => [kind, el('strong')]));
    const legend = el(
        'div',
        { class: 'legend', 'aria-hidden': 'true' },
        time,
        ORDER.map((kind) =>
            el(
                'span',
                {},
                svg('svg', { viewBox: '0 0 14 10' }, painted('rect', id, kind, { width: 14, height: 10, class: kind })),
                WORDS[kind],
                values[kind],
            ),
        ),
    );
    const element = el('div', { class: 'chart' }, plot, legend);
    let data = null;
    let chosen = null; // the column that is read out; null: the last
    let width = 0;

    const columnCount = () => data.stack.allowed.length;
    const x = (i) => LEFT + (i / columnCount()) * (width - LEFT);

    function readOut() {
        const at = chosen ?? columnCount() - 1;
        const from = data.end - (columnCount() - at) * data.seconds;
        const per = data.per ?? 'second';
        const long = columnCount() * data.seconds > DAY;
        const name = (moment) => (long ? `${day(moment)} ${clock(moment, false)}` : clock(moment));
        setText(time, chosen === null ? `until ${name(data.end)}` : `${name(from)} – ${name(from + data.seconds)}`);
        for (const kind of ORDER) {
            const value = data.stack[kind][at];
            setText(values[kind], value === null || value === undefined ? '–' : `${count(value)}/${UNITS[per]}`);
            values[kind].title = `${exact(value)} per ${per}`;
        }
        plot.setAttribute('aria-valuemax', columnCount() - 1);
        plot.setAttribute('aria-valuenow', at);
        if (document.activeElement !== plot || chosen !== null) {
            plot.setAttribute(
                'aria-valuetext',
                data.stack.allowed[at] === null
                    ? `${name(from)}: no data`
                    : `${name(from)}: ${ORDER.map((kind) => `${count(data.stack[kind][at])} ${WORDS[kind]}`).join(', ')} per ${per}`,
            );
        }
    }

    function redraw() {
        width = element.clientWidth;
        if (!data || !width) return;
        const length = columnCount();
        const sums = data.stack.allowed.map((_, i) => ORDER.reduce((sum, kind) => sum + (data.stack[kind][i] ?? 0), 0));
        const top = roundUp(Math.max(1, ...sums));
        const y = (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
        const start = data.end - length * data.seconds;
        const xOfTime = (at) => LEFT + ((at - start) / (data.end - start)) * (width - LEFT);
        plot.setAttribute('viewBox', `0 0 ${width} ${height}`);
        replace(
            plot,
            patterns(id),
            gaps(data.stack.allowed).map(([from, to]) =>
                svg('rect', {
                    class: 'gap',
                    x: x(from),
                    width: x(to) - x(from),
                    y: TOP,
                    height: height - TOP - BOTTOM,
                }),
            ),
            [0, top / 2, top].map((value) => [
                svg('line', { class: 'grid', x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
                svg('text', { x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end' }, count(value)),
            ]),
            areas(data.stack, length, x, y).map(({ kind, path }) =>
                painted('path', id, kind, { class: `area ${kind}`, d: path }),
            ),
            timeMarks(start, data.end, width - LEFT).map(([at, name]) =>
                svg(
                    'text',
                    { x: xOfTime(at), y: height - 4, 'text-anchor': xOfTime(at) > width - 20 ? 'end' : 'middle' },
                    name,
                ),
            ),
            chosen === null
                ? null
                : svg('line', {
                      class: 'cross',
                      x1: x(chosen + 0.5),
                      x2: x(chosen + 0.5),
                      y1: TOP,
                      y2: height - BOTTOM,
                  }),
        );
        readOut();
    }

    function choose(column) {
        chosen = column === null ? null : Math.max(0, Math.min(columnCount() - 1, column));
        redraw();
    }

    plot.addEventListener('pointermove', (event) => {
        if (!data) return;
        const at = event.clientX - plot.getBoundingClientRect().left;
        choose(Math.floor(((at - LEFT) / (width - LEFT)) * columnCount()));
    });
    plot.addEventListener('pointerleave', () => data && choose(null));
    plot.addEventListener('blur', () => data && choose(null));
    plot.addEventListener('keydown', (event) => {
        if (!data) return;
        const at = chosen ?? columnCount() - 1;
        const steps = {
            ArrowLeft: at - 1,
            ArrowRight: at + 1,
            ArrowDown: at - 1,
            ArrowUp: at + 1,
            PageUp: at - 10,
            PageDown: at + 10,
            Home: 0,
            End: columnCount() - 1,
            Escape: null,
        };
        if (!(event.key in steps)) return;
        event.preventDefault();
        choose(steps[event.key]);
    });
    const resized = new ResizeObserver(() => element.clientWidth !== width && redraw());
    resized.observe(element);
    return {
        element,
        draw(next) {
            if (chosen !== null && data && next.end !== data.end)
                chosen = Math.max(0, chosen - Math.round((next.end - data.end) / next.seconds));
            data = next;
            redraw();
        },
        close: () => resized.disconnect(),
    };
}

/** A small line of the same kinds, for a row of a table. draw(stack) shows others. */
export function sparkline() {
    const width = 120;
    const height = 24;
    const element = svg('svg', {
        class: 'spark',
        viewBox: `0 0 ${width} ${height}`,
        preserveAspectRatio: 'none',
        'aria-hidden': 'true',
    });
    return {
        element,
        draw(stack) {
            const length = stack.allowed.length;
            const sums = stack.allowed.map((_, i) => ORDER.reduce((sum, kind) => sum + (stack[kind][i] ?? 0), 0));
            const top = Math.max(0.2, ...sums);
            const shapes = areas(
                stack,
                length,
                (i) => (i / length) * width,
                (value) => 1 + (1 - value / top) * (height - 2),
            );
            replace(
                element,
                svg('line', { class: 'grid', x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
                shapes.map(({ kind, path }) => svg('path', { class: `area ${kind}`, d: path })),
            );
        },
    };
}
