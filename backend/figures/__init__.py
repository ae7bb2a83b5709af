"""Figures: Plotly, built in Python, one file per chart, answered whole.

    registry.py  the catalogue      source.py  columns from the database     theme.py  colours, templates
    timeline.py loss.py ...   one chart each: `chart(source, request)` loads, `draw(...)` draws
    race.py      several jobs on one time axis, with a computed headline
    rows.py boxes.py draw.py scene.py words.py window.py     what timeline and race are made of

Everything that draws works on NumPy arrays; only `source.py` reads tables.
"""
