// Places in a text area, shown by a copy of its text behind it: a text area itself has no coloured parts.

const ORDER = ["chosen", "rejected", "narrowed", "annotation", "enforced"];

/** Beyond this length the copy is left away: laying a text out twice is felt, and the list of answers still selects each place. */
const MOST = 300_000;

/** Shows `places` (`{ start, end, kind }`) of `area` in `behind`. Where places overlap, the gravest kind is seen. */
export function mark(area, behind, places) {
  const text = area.value;
  const parts = [];
  if (text.length <= MOST && places.length > 0) {
    const cuts = new Set([0, text.length]);
    const open = places.filter(({ start, end }) => start < end && end <= text.length);
    for (const { start, end } of open) cuts.add(start).add(end);
    const sorted = [...cuts].sort((left, right) => left - right);
    const starts = [...open].sort((left, right) => left.start - right.start);
    let live = [];
    let next = 0;
    for (let i = 0; i + 1 < sorted.length; i++) {
      const [from, to] = [sorted[i], sorted[i + 1]];
      while (next < starts.length && starts[next].start <= from) live.push(starts[next++]);
      live = live.filter(({ end }) => end > from);
      const part = text.slice(from, to);
      if (live.length === 0) {
        parts.push(part);
        continue;
      }
      const kind = live.map((place) => place.kind).sort((left, right) => ORDER.indexOf(left) - ORDER.indexOf(right))[0];
      const shown = document.createElement("mark");
      shown.className = kind;
      shown.textContent = part;
      parts.push(shown);
    }
  }
  // A last line break takes no room of its own in `pre`.
  behind.replaceChildren(...parts, "\n");
  follow(area, behind);
}

/** Scrolls the copy as the text area is scrolled. */
export function follow(area, behind) {
  behind.scrollTop = area.scrollTop;
  behind.scrollLeft = area.scrollLeft;
}

/** Puts the selection on a place, and the place into view. */
export function select(area, { start, end }) {
  area.focus();
  // A selection that is set moves no text area; the browser follows the caret when something is typed or when it is focused anew.
  area.setSelectionRange(start, start);
  area.blur();
  area.focus();
  area.setSelectionRange(start, end);
}
