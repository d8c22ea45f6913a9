// SPDX-License-Identifier: Apache-2.0
// A textarea with line numbers and marked lines. Only what is in view is drawn, so that long texts stay quick.

import { el, replace } from './dom.js';

const LINE = 20; // pixels; the style says the same
const PAD = 8;

/** changed(): the text differs. run(): Ctrl and Enter. */
export function textEditor({ label, changed, run }) {
    const area = el('textarea', {
        class: 'mono',
        spellcheck: false,
        autocapitalize: 'off',
        autocomplete: 'off',
        wrap: 'off',
        'aria-label': label,
    });
    const gutter = el('div', { class: 'gutter', 'aria-hidden': 'true' });
    const marks = el('div', { class: 'line-marks', 'aria-hidden': 'true' });
    const element = el('div', { class: 'editor' }, gutter, el('div', { class: 'sheet' }, marks, area));
    let worst = new Map(); // by line: 'error' or 'warning'
    let lineCount = 1;
    let escaped = false;

    function draw() {
        const first = Math.max(0, Math.floor((area.scrollTop - PAD) / LINE));
        const last = Math.min(lineCount, first + Math.ceil(area.clientHeight / LINE) + 2);
        const numbers = [];
        const bands = [];
        for (let i = first; i < last; i += 1) {
            const kind = worst.get(i + 1);
            const top = `${PAD + i * LINE - area.scrollTop}px`;
            const number = el(
                'span',
                { class: kind ?? null },
                kind === 'error' ? '\u2716 ' : kind ? '\u25b2 ' : '',
                String(i + 1),
            );
            number.style.top = top;
            numbers.push(number);
            if (!kind) continue;
            const band = el('span', { class: kind });
            band.style.top = top;
            bands.push(band);
        }
        replace(gutter, numbers);
        replace(marks, bands);
    }

    function count() {
        lineCount = area.value.split('\n').length;
        gutter.style.width = `${String(lineCount).length + 3.5}ch`;
        draw();
    }

    area.addEventListener('scroll', draw);
    area.addEventListener('input', () => {
        count();
        changed();
    });
    // Tab writes spaces, as YAML wants them; after Escape it goes on to the next control, as everywhere.
    area.addEventListener('keydown', (event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            run();
        } else if (event.key === 'Tab' && !event.shiftKey && !escaped) {
            event.preventDefault();
            area.setRangeText('  ', area.selectionStart, area.selectionEnd, 'end');
            area.dispatchEvent(new Event('input'));
        }
        escaped = event.key === 'Escape' || (escaped && event.key === 'Shift');
    });
    new ResizeObserver(draw).observe(area);

    return {
        element,
        area,
        get text() {
            return area.value;
        },
        set text(text) {
            area.value = text;
            count();
        },
        /** Marks the lines of diagnostics. */
        mark(diagnostics) {
            worst = new Map();
            for (const { line, severity } of diagnostics) if (worst.get(line) !== 'error') worst.set(line, severity);
            draw();
        },
        /** Puts the cursor there, and shows the line. */
        goTo(line, column = 1) {
            const lines = area.value.split('\n');
            const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
            area.focus();
            area.setSelectionRange(start, start);
            area.scrollTop = Math.max(0, (line - 1) * LINE - area.clientHeight / 2);
            draw();
        },
    };
}
