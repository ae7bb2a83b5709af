"""Who may do what: three roles, and for every operation of the API the least one that may.

A role may what those before it may, and more: a viewer looks, a member runs jobs too, an admin gives and takes rights
too. A token has a scope, which is a role: whoever shows it has the lesser of the two. What a member may end, change or
delete is what they made themselves, or what nobody made (as before there were people). An operation that this table
does not name is the admins': a route that somebody forgets here is closed, and a test says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["viewer", "member", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may what those before it may."""
MEANS: Mapping[Role, str] = {
    "viewer": "look at everything, and have tokens of their own that may no more",
    "member": "plan, launch and race, too, and cancel, change and delete what they made",
    "admin": "do so with everybody's, share devices among projects, take them out of use, and say who may use the"
    " server",
}
"""What each may do, for people."""

LEAST: Mapping[str, Role] = {
    # look
    "list_jobs": "viewer",
    "show_job": "viewer",
    "show_plan": "viewer",
    "show_specification": "viewer",
    "list_attempts": "viewer",
    "list_history": "viewer",
    "list_job_groups": "viewer",
    "show_metrics": "viewer",
    "list_metrics": "viewer",
    "list_events": "viewer",
    "export_trace": "viewer",
    "list_speed_ups": "viewer",
    "list_link_series": "viewer",
    "show_stretch": "viewer",
    "show_staleness": "viewer",
    "show_memory": "viewer",
    "show_logs": "viewer",
    "download_log": "viewer",
    "show_summary": "viewer",
    "list_checkpoints": "viewer",
    "export_model": "viewer",
    "show_figure": "viewer",
    "draw_race": "viewer",
    "compare_jobs": "viewer",
    "explain_wait": "viewer",
    "list_races": "viewer",
    "show_race": "viewer",
    "show_best": "viewer",
    "report_race": "viewer",
    "show_learning": "viewer",
    "show_race_figure": "viewer",
    "list_templates": "viewer",
    "read_template": "viewer",
    "list_starts": "viewer",
    "list_strategies": "viewer",
    "list_models": "viewer",
    "list_datasets": "viewer",
    "list_axes": "viewer",
    "list_devices": "viewer",
    "list_nodes": "viewer",
    "show_queue": "viewer",
    "list_maintenance": "viewer",
    "list_projects": "viewer",
    "show_lab": "viewer",
    "list_words": "viewer",
    "list_figures": "viewer",
    "show_job_schema": "viewer",
    "follow_notices": "viewer",
    "scrape_metrics": "viewer",
    "export_tables": "viewer",
    "export_race_tables": "viewer",
    # one's own tokens
    "list_tokens": "viewer",
    "make_token": "viewer",
    "revoke_token": "viewer",
    # run; planning, too, runs the code of the model that it plans
    "preview_plan": "member",
    "predict_memory": "member",
    "find_where_codecs_pay": "member",
    "largest_batch": "member",
    "draw_largest_batch": "member",
    "measure_profile": "member",
    "submit_job": "member",
    "clone_job": "member",
    "label_job": "member",
    "choose_baseline": "member",
    "record_steps": "member",
    "cancel_job": "member",
    "preempt_job": "member",
    "delete_job": "member",
    "submit_race": "member",
    "add_members": "member",
    "cancel_race": "member",
    "delete_race": "member",
    # share the devices
    "put_project": "admin",
    "remove_project": "admin",
    # take devices out of use
    "begin_maintenance": "admin",
    "end_maintenance": "admin",
    # be told, and what one's own jobs are given; whoever was a member may still see and remove what is theirs
    "list_webhooks": "viewer",
    "add_webhook": "member",
    "remove_webhook": "viewer",
    "try_webhook": "member",
    "list_deliveries": "viewer",
    "list_secrets": "viewer",
    "keep_secret": "member",
    "remove_secret": "viewer",
    # say who may
    "list_users": "admin",
    "add_user": "admin",
    "change_user": "admin",
    "remove_user": "admin",
    "list_audit": "admin",
}
"""The least role that may do it, by the operation's id in the API's document."""

OWN: Mapping[str, str] = {
    "label_job": "job_id",
    "choose_baseline": "job_id",
    "record_steps": "job_id",
    "cancel_job": "job_id",
    "preempt_job": "job_id",
    "delete_job": "job_id",
    "add_members": "race_id",
    "cancel_race": "race_id",
    "delete_race": "race_id",
}
"""What a member may do with their own things only, and the parameter of the address that names the thing."""

CHANGE_NOTHING = frozenset(
    {
        "preview_plan",
        "predict_memory",
        "find_where_codecs_pay",
        "largest_batch",
        "draw_largest_batch",
        "read_template",
    }
)
"""Operations that are asked by POST, because they take a text or a specification, and store nothing."""


def least(operation: str) -> Role:
    """The least role that may do it."""
    return LEAST.get(operation, "admin")


def may(role: Role, wanted: Role) -> bool:
    """Whether `role` is `wanted`, or may more."""
    return ROLES.index(role) >= ROLES.index(wanted)


def one(role: Role) -> str:
    """`an admin`, for people."""
    return f"an {role}" if role == "admin" else f"a {role}"


def lesser(first: Role, second: Role) -> Role:
    """The one of both that may less."""
    return min(first, second, key=ROLES.index)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who asks for something."""

    name: str | None
    """A user's; None: whoever reaches a server that asks nobody."""
    role: Role
    """What they may, by the user's role and the token's scope."""
    token_id: int | None = None
    """The token that they showed, or signed in with."""
    token_name: str | None = None
    ends_unix_ns: int | None = None
    """When the browser's session ends; None where it is none."""


EVERYBODY = Caller(name=None, role="admin")
"""Whoever reaches a server that asks nobody."""
