// SPDX-License-Identifier: Apache-2.0
// Numbers and times for people. Exact values belong in the title of the element.

const NARROW = '\u202f'; // a space that does not break
const exactly = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });

/** 0.04, 3.2, 123, 12.3 k, 4.56 M: three digits that count. */
export function count(value) {
    if (value === null || value === undefined) return '–';
    const size = Math.abs(value);
    if (size === 0) return '0';
    if (size < 0.005) return '<0.01';
    if (size < 1) return value.toFixed(2);
    if (size < 10) return Number.isInteger(value) ? String(value) : value.toFixed(1);
    for (const [unit, from] of [
        ['G', 1e9],
        ['M', 1e6],
        ['k', 1e3],
    ]) {
        if (size >= from * 0.9995) {
            const part = value / from;
            return `${part.toFixed(Math.abs(part) >= 99.95 ? 0 : Math.abs(part) >= 9.995 ? 1 : 2)}${NARROW}${unit}`;
        }
    }
    return String(Math.round(value));
}

/** All digits, in groups. */
export function exact(value) {
    return value === null || value === undefined ? 'unknown' : exactly.format(value);
}

export function percent(part) {
    if (part === null || part === undefined || Number.isNaN(part)) return '–';
    const value = part * 100;
    if (value === 0) return `0${NARROW}%`;
    if (value < 0.1) return `<0.1${NARROW}%`;
    if (value >= 99 && value < 100) return `${Math.min(value, 99.9).toFixed(1)}${NARROW}%`; // 100 % is all of them
    return `${value < 10 ? value.toFixed(1) : Math.round(value)}${NARROW}%`;
}

export function bytes(value) {
    for (const [unit, from] of [
        ['GiB', 2 ** 30],
        ['MiB', 2 ** 20],
        ['KiB', 2 ** 10],
    ]) {
        if (value >= from) return `${(value / from).toFixed(value / from < 10 ? 1 : 0)}${NARROW}${unit}`;
    }
    return `${value}${NARROW}B`;
}

/** A time that a decision took. */
export function latency(seconds) {
    if (seconds === null || seconds === undefined) return '–';
    if (seconds < 0.001) return `${count(Math.round(seconds * 1e6))}${NARROW}µs`;
    if (seconds < 1) return `${count(seconds * 1e3)}${NARROW}ms`;
    return `${seconds.toFixed(1)}${NARROW}s`;
}

/** How long something lasts: 0.4 s, 59 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(seconds) {
    if (seconds === null || seconds === undefined) return 'never';
    if (seconds < 10) return `${Number(seconds.toFixed(1))}${NARROW}s`;
    const whole = Math.round(seconds);
    for (const [unit, size, below, part] of [
        ['d', 86400, 'h', 3600],
        ['h', 3600, 'min', 60],
        ['min', 60, 's', 1],
    ]) {
        if (whole < size) continue;
        const rest = Math.floor((whole % size) / part);
        return `${Math.floor(whole / size)}${NARROW}${unit}${rest ? ` ${rest}${NARROW}${below}` : ''}`;
    }
    return `${whole}${NARROW}s`;
}

/** A time of day, of Unix seconds. */
export function clock(unix, withSeconds = true) {
    const at = new Date(unix * 1000);
    const two = (n) => String(n).padStart(2, '0');
    return `${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ''}`;
}

/** 19 Nov, of Unix seconds. */
export function day(unix) {
    return new Date(unix * 1000).toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
}

/** A time of day, with its date if it is not that of today. */
export function moment(unix) {
    const at = new Date(unix * 1000);
    return at.toDateString() === new Date().toDateString() ? clock(unix) : when(at);
}

/** A date and time of RFC 3339, in the time zone of the reader. */
export function when(text) {
    const at = new Date(text);
    if (Number.isNaN(at.getTime())) return text;
    const two = (n) => String(n).padStart(2, '0');
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(at.getTime() / 1000)}`;
}

/** The time zone that times are shown in: "UTC+01:00, Europe/Rome". */
export function zone() {
    const minutes = -new Date().getTimezoneOffset();
    const two = (n) => String(Math.floor(n)).padStart(2, '0');
    const size = Math.abs(minutes);
    const offset = minutes ? `UTC${minutes < 0 ? '\u2212' : '+'}${two(size / 60)}:${two(size % 60)}` : 'UTC';
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return name && name !== offset ? `${offset}, ${name}` : offset;
}

/** 1 rule, 2 rules. */
export function plural(number, one, many = `${one}s`) {
    return `${exact(number)} ${number === 1 ? one : many}`;
}
