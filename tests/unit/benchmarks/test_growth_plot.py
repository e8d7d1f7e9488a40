"""The charts of figures that grow with the size of a run."""

import xml.etree.ElementTree as ET

from benchmarks.large.growth_plot import growth_plot

SVG = "{http://www.w3.org/2000/svg}"
LINES = {
    "time": {10_000: 130.0, 100_000: 140.0, 1_000_000: 150.0},
    "CPU <1 core>": {10_000: 131.0, 100_000: 155.0},
}


def test_growth_plot__begins_at_zero_with_a_dot_for_each_value() -> None:
    chart = ET.fromstring(growth_plot("Cost of a trace", "µs", LINES))
    texts = {text.text: float(text.attrib["y"]) for text in chart.iter(f"{SVG}text")}
    dots = {dot[0].text: float(dot.attrib["cy"]) for dot in chart.iter(f"{SVG}circle")}

    assert set(dots) == {
        *(f"time, {size:,}: {value:g} µs" for size, value in LINES["time"].items()),
        *(f"CPU <1 core>, {size:,}: {value:g} µs" for size, value in LINES["CPU <1 core>"].items()),
    }
    # The distance of a dot from the line of 0 is in proportion to its value.
    zero_y = texts["0"] - 4
    heights = {name: zero_y - y for name, y in dots.items()}
    assert (
        abs(heights["time, 1,000,000: 150 µs"] / heights["time, 10,000: 130 µs"] - 150 / 130) < 0.01
    )


def test_growth_plot__names_of_close_lines_do_not_overlap() -> None:
    close = {"api": {1: 100.0}, "scheduler": {1: 100.1}, "worker": {1: 99.9}}
    chart = ET.fromstring(growth_plot("Peak memory", "MiB", close))
    ys = sorted(float(text.attrib["y"]) for text in chart.iter(f"{SVG}text") if text.text in close)

    assert len(ys) == 3
    assert min(ys[1] - ys[0], ys[2] - ys[1]) >= 12
