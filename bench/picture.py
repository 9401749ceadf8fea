"""The figures that matter most as bars, in an SVG that reads well on a light and on a dark page."""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from bench import results as measured
from bench.records import Record
from bench.report import number
from bench.results import STORES, Measure, Results

PANELS = {
    "postgres": (
        *(measured.ENQUEUE_SYNC, measured.ENQUEUE_ASYNC, measured.BULK),
        *(measured.DRAIN, measured.DRAIN_TWO, measured.FAILING, measured.GAPS_P50, measured.IDLE_MEMORY),
    ),
    "sqlite": (measured.ENQUEUE_SYNC, measured.DRAIN, measured.FAILING, measured.GAPS_P50),
}
WIDTH, MARGIN, GAP = 960, 20, 30
COLUMNS = 2
PANEL = (WIDTH - 2 * MARGIN - (COLUMNS - 1) * GAP) // COLUMNS
LINE, BAR, TITLE, HEADING = 20, 13, 30, 44
NAME, VALUE = 130, 70
STYLE = """
text { font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328; }
.heading { font-size: 17px; font-weight: 600; }
.title { font-size: 13px; font-weight: 600; }
.less { font-weight: 400; fill: #59636e; }
.ours { fill: #1a7f5a; }
.peer { fill: #b6bec8; }
.raw { fill: #e2e6ea; }
.name-ours { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .less { fill: #9198a1; }
  .ours { fill: #3fb68b; }
  .peer { fill: #545d68; }
  .raw { fill: #343b44; }
}
"""


def picture(records: Sequence[Record]) -> str:
    results, top, drawn = Results(records), MARGIN, []
    for store, measures in PANELS.items():
        panels = [(measure, rows) for measure in measures if (rows := list(_rows(results, store, measure)))]
        if not panels:
            continue
        drawn.append(f'<text class="heading" x="{MARGIN}" y="{top + 20}">{STORES[store]}</text>')
        top += HEADING
        for first in range(0, len(panels), COLUMNS):
            beside = panels[first : first + COLUMNS]
            for column, (measure, rows) in enumerate(beside):
                drawn += _panel(measure, rows, left=MARGIN + column * (PANEL + GAP), top=top)
            top += TITLE + LINE * max(len(rows) for _, rows in beside) + GAP // 2
    label = "Rates and latencies of mulligan and of other job queues"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" aria-label="{label}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *drawn, "</svg>"]) + "\n"


Row = tuple[str, str, float]
"""The class of the bar, the name beside it, the median."""


def _rows(results: Results, store: str, measure: Measure) -> Iterator[Row]:
    for entry, found in results.measured(measure, stores=[store]):
        kind = "ours" if entry.is_ours else "raw" if entry.is_raw else "peer"
        yield kind, entry.name.removesuffix(f"-{store}"), found.median


def _panel(measure: Measure, rows: Sequence[Row], *, left: int, top: int) -> Iterator[str]:
    less = ' <tspan class="less">(less is better)</tspan>' if measure.less_is_better else ""
    yield f'<text class="title" x="{left}" y="{top + 14}">{escape(measure.title)}{less}</text>'
    most = max(value for _, _, value in rows)
    for index, (kind, name, value) in enumerate(rows):
        y = top + TITLE + index * LINE
        width = max(1.0, (PANEL - NAME - VALUE) * value / most)
        yield f'<text class="name-{kind}" x="{left + NAME - 8}" y="{y + 2}" text-anchor="end">{escape(name)}</text>'
        yield f'<rect class="{kind}" x="{left + NAME}" y="{y - BAR + 4}" width="{width:.1f}" height="{BAR}" rx="2"/>'
        yield f'<text class="name-{kind}" x="{left + NAME + width + 6:.1f}" y="{y + 2}">{number(value)}</text>'
