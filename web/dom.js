// SPDX-License-Identifier: Apache-2.0
// Elements without markup in strings: text that is given becomes a text node, whatever it has in it.

const SVG = 'http://www.w3.org/2000/svg';

/** Attributes that are properties: what a user changes later follows them. */
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'hidden', 'open', 'spellcheck']);

/** Characters that nobody sees, or that turn the text around them. Joiners of emoji stay. */
const INVISIBLE =
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/u;

function decorate(element, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === undefined || value === null || value === false) continue;
        if (name === 'on') {
            for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
        } else if (PROPERTIES.has(name)) {
            element[name] = value;
        } else {
            element.setAttribute(name, value === true ? '' : value);
        }
    }
    return element;
}

function fill(element, children) {
    const given = children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);
    element.append(...given);
    return element;
}

/**
 * An element of HTML. `attributes.on` has listeners by event; attributes that are null or false are left out.
 * Children are elements, texts, numbers, and lists of them.
 */
export function el(tag, attributes = {}, ...children) {
    const element = fill(document.createElement(tag), children);
    return decorate(element, attributes);
}

/** The same of SVG. */
export function svg(tag, attributes = {}, ...children) {
    return decorate(fill(document.createElementNS(SVG, tag), children), attributes);
}

/** Puts other children in the place of those of `parent`. */
export function replace(parent, ...children) {
    parent.replaceChildren();
    return fill(parent, children);
}

const CONTROLS = 'a[href], button:not(:disabled), input, select, textarea, summary';
const nameOf = (control) => control.getAttribute('aria-label') ?? control.textContent;
const groupOf = (control) => control.closest('section[aria-label]')?.getAttribute('aria-label') ?? null;

/**
 * The same for parts that are shown again after a change. The focus goes to the control that has the name and the
 * section of the one that had it; else to the control at its place, else to `parent`.
 */
export function replaceKeepingFocus(parent, ...children) {
    const before = parent.contains(document.activeElement) ? document.activeElement : null;
    const controlsOf = (group) => [...parent.querySelectorAll(CONTROLS)].filter((one) => groupOf(one) === group);
    const group = before && groupOf(before);
    const place = before ? controlsOf(group).indexOf(before) : -1;
    replace(parent, ...children);
    if (!before) return parent;
    const controls = controlsOf(group);
    const sameName = controls.find((one) => nameOf(one) === nameOf(before));
    const next = sameName ?? controls[Math.min(place, controls.length - 1)];
    if (!next) parent.tabIndex = -1;
    (next ?? parent).focus({ preventScroll: true });
    return parent;
}

/** Writes a text only if it differs, so that nothing is laid out or read aloud for no reason. */
export function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

/** The parts of a text: invisible characters as boxes with their code, all else as it is. */
function visibleParts(text) {
    const parts = [];
    let plain = '';
    for (const character of text) {
        if (!INVISIBLE.test(character)) {
            plain += character;
            continue;
        }
        if (plain) parts.push(plain);
        plain = '';
        const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
        parts.push(el('span', { class: 'control', title: 'a character that cannot be seen' }, `U+${code}`));
    }
    if (plain) parts.push(plain);
    return parts;
}

/**
 * A text that somebody else chose: a rule's name, a client's key. It is shown as it is, isolated from the
 * direction of the text around it.
 */
export function given(text, className = '') {
    const shown = String(text ?? '');
    if (shown === '') return el('span', { class: 'sub' }, '(empty)');
    return el('bdi', { class: className || null, dir: 'auto' }, visibleParts(shown));
}

/** Gathers calls: `call` runs once, when there was none for `milliseconds`. */
export function afterPause(milliseconds, call) {
    let timer;
    const later = (...values) => {
        clearTimeout(timer);
        timer = setTimeout(call, milliseconds, ...values);
    };
    later.cancel = () => clearTimeout(timer);
    return later;
}
