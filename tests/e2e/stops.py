"""What the keyboard comes by on a page, stop by stop: whether it is in sight, lies under nothing, and is marked. How
each looks without the focus is looked at behind the last stop, when none has it: to take it from each at once, and give
it back, took a third of the time. The page itself looks when the key comes up again, by when the focus has moved and is
in sight, and is asked for several stops together: each question costs as much as a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.e2e.views import STILL

if TYPE_CHECKING:
    from playwright.sync_api import Page

MOST_STOPS, TOGETHER = 400, 8
# Look at what has the focus, from now on whenever Tab comes up, until there is nothing new to come by. A field that is
# hidden is shown by its label, or by what is drawn in its place.
WATCH = """() => {
window.looks = parts => parts.map(one => {
    const {outlineStyle, outlineWidth, outlineColor, borderColor, boxShadow} = getComputedStyle(one);
    return [outlineStyle, outlineWidth, outlineColor, borderColor, boxShadow].join();
}).join(';');
const focus = () => {
    const focused = document.activeElement;
    if (focused === null || focused === document.body) return null;
    const hidden = one => {
        const {width, height} = one.getBoundingClientRect();
        return width < 3 || height < 3 || getComputedStyle(one).opacity === '0';
    };
    const shown = hidden(focused) ? focused.labels?.[0] ?? focused.parentElement : focused;
    const frame = focused.closest('.mantine-Input-wrapper')?.firstElementChild ?? null;
    const parts = [focused, shown, frame, focused.parentElement, focused.nextElementSibling]
        .filter(one => one !== null);
    const box = shown.getBoundingClientRect();
    const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
    const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
    const at = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    const tips = at?.closest('[role=tooltip]');
    const inSight = right > left && bottom - top >= Math.min(box.height, 12) - 1;
    const own = [...(at?.labels ?? [])].some(one => one.contains(shown)); // a hidden field lies over its label
    const free = tips || own || at === null || shown.contains(at) || at.contains(shown) || focused.contains(at);
    const called = focused.dataset.testid ?? focused.ariaLabel ?? focused.textContent.trim().slice(0, 40);
    const name = `${focused.tagName} ${called}`;
    // A field of a date has a stop for each of its parts.
    const again = focused.type === 'datetime-local' && focused === window.stops.at(-1)
        ? -1 : window.stops.indexOf(focused);
    if (again < 0 && focused !== window.stops.at(-1)) {
        window.stops.push(focused);
        window.marks.push([name, parts, window.looks(parts)]);
    }
    return {name, again, inSight, free: Boolean(free), id: focused.dataset.testid ?? null,
            under: free ? '' : `under ${at.tagName} ${at.className} at ${top} of ${innerHeight}`};
};
[window.stops, window.marks, window.come] = [[], [], []];
const look = ({key}) => {
    if (key !== 'Tab') return;
    const found = focus();
    window.come.push(found);
    if (found === null || found.again >= 0) removeEventListener('keyup', look, true);
};
addEventListener('keyup', look, true);
}"""
COME_BY = "() => window.come.splice(0)"
# What looked with the focus as it does without. What has left the page meanwhile has no looks to compare.
UNMARKED = """() => {
    document.activeElement?.blur();
    return window.marks.flatMap(([name, parts, marked]) =>
        !parts[0].isConnected ? [`${name}: left the page`]
            : window.looks(parts) === marked ? [`${name}: not marked`] : []);
}"""
# The page's last element that Tab comes by, where it did not; of radios that go together it comes by one.
NOT_REACHED = """() => {
    const wanted = 'a[href], button, input, select, textarea, [tabindex]';
    const last = [...document.querySelectorAll(wanted)].filter(one =>
        one.tabIndex >= 0 && !one.disabled && one.type !== 'radio' && one.type !== 'hidden'
        && one.checkVisibility({visibilityProperty: true})).at(-1);
    return last === undefined || window.stops.includes(last) ? null : last.outerHTML.slice(0, 200);
}"""

# Tab goes on from where one was last, which may be the last stop.
BEGIN = """() => {
    document.body.tabIndex = -1;
    document.body.focus({preventScroll: true});
    document.body.removeAttribute('tabindex');
}"""


def stops(page: Page, *, past_header: bool = False, anew: bool = False) -> tuple[list[str], set[str]]:
    """What is wrong with what Tab comes by, from the first to the last, or from the content on, to which the first one
    leads; and the test ids of that. After the last stop there is none, or the first one again: anything else is a
    trap. `anew`: from the page's begin, wherever the focus was."""
    wrong, seen = [], set()
    page.evaluate(STILL)
    if anew:
        page.evaluate(BEGIN)
    if past_header:
        page.locator(".ty-skip").focus()
        page.keyboard.press("Enter")
    page.evaluate(WATCH)
    for found in _come_by(page):
        if found is None or found["again"] >= 0:
            if found and found["again"] > 0:
                wrong.append(f"{found['name']}: Tab comes back to it, and not to the first stop")
            if missed := page.evaluate(NOT_REACHED):
                wrong.append(f"Tab does not come to the last: {missed}")
            return [*wrong, *page.evaluate(UNMARKED)], seen
        seen.add(found["id"])
        wrong += [
            f"{found['name']}: not {what} {found['under']}".rstrip()
            for what in ("inSight", "free")
            if not found[what]
        ]
    raise AssertionError(f"after {MOST_STOPS} stops there are more")


def _come_by(page: Page) -> Iterator[dict[str, Any] | None]:
    """What Tab comes by; who has come to the end asks for no more."""
    for _ in range(MOST_STOPS // TOGETHER):
        for _ in range(TOGETHER):
            page.keyboard.press("Tab")
        yield from page.evaluate(COME_BY)
