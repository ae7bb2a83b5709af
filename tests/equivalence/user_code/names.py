"""Options of these models whose modules would disable the gates of a process that imports them."""

from __future__ import annotations

DISPATCHING = ("nested", "passing", "switched off", "counted", "asked for", "halved")
