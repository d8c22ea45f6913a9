// SPDX-License-Identifier: Apache-2.0
// The switch between the system's theme, light and dark. theme.js sets the kept one at the next visit.

const NEXT = { system: 'light', light: 'dark', dark: 'system' };
const SIGNS = { system: '\u25d0', light: '\u2600', dark: '\u263e' };

export function setUpTheme(button) {
    const show = (theme) => {
        button.textContent = `${SIGNS[theme]}\ufe0e`;
        button.setAttribute('aria-label', `Theme: ${theme}. Switch to ${NEXT[theme]}`);
        button.title = `Theme: ${theme}`;
    };
    button.addEventListener('click', () => {
        const theme = NEXT[document.documentElement.dataset.theme ?? 'system'];
        if (theme === 'system') delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = theme;
        try {
            localStorage.setItem('ration.theme', theme);
        } catch {
            // Storage is turned off in this browser: the theme lasts until the page is closed.
        }
        show(theme);
    });
    show(document.documentElement.dataset.theme ?? 'system');
}
