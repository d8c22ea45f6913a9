// SPDX-License-Identifier: Apache-2.0
// The theme that was chosen here before, set before the page is painted. No module: modules run too late.
{
    let kept = null;
    try {
        kept = localStorage.getItem('ration.theme');
    } catch {
        // Storage is turned off in this browser: the system's theme holds.
    }
    if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept;
}
