"""The plan editor on Launch: choices layer by layer, shown at once with their bytes, and refused at their row."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from backend.connection import ApiError
from tests.e2e.launching import expect_the_plan, open_editor, open_form
from tests.e2e.test_launch import in_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_a_layer_is_changed_by_hand_and_the_job_says_so(page: Page, client: Client) -> None:
    open_form(page, "by hand", strategy="p3")
    open_editor(page)
    editor = page.get_by_test_id("plan-editor")
    totals = editor.get_by_test_id("plan-totals")
    row = editor.get_by_test_id(re.compile("^plan-editor-row-")).last
    layer = (row.get_attribute("data-testid") or "").removeprefix("plan-editor-row-")
    expect(row).to_contain_text("Linear")
    expect(row.get_by_label(re.compile("^Exchange of"))).to_have_value("parameter-server")
    expect(editor).to_have_attribute("aria-busy", "false")
    before = totals.inner_text()
    wire = row.get_by_role("cell").nth(2)
    bytes_before = in_bytes(wire.inner_text())

    row.get_by_label(re.compile("^Codec of")).select_option("fp16")
    expect(row).to_contain_text("changed by hand")
    notes = editor.get_by_test_id("plan-note").filter(has_text="overrides.0: ")
    expect(notes).to_contain_text(f"layers named {layer} [{layer} (Linear)]: codec fp16")
    expect(totals).not_to_have_text(before, use_inner_text=True)
    expect(editor).to_have_attribute("aria-busy", "false")
    # Gradients go in half as many bytes, parameters come back whole.
    assert in_bytes(wire.inner_text()) == pytest.approx(0.75 * bytes_before, rel=0.01)

    row.get_by_label(re.compile("^Exchange of")).select_option("native")
    refused = editor.get_by_test_id(f"refused-{layer}")
    expect(refused).to_contain_text("would sum encoded values. Use fp32, or ring-allreduce")
    row.get_by_label(re.compile("^Exchange of")).select_option("ring-allreduce")
    expect(refused).to_have_count(0)
    expect(row.get_by_label(re.compile("^Returns of"))).to_have_value("none")

    page.keyboard.press("Escape")
    expect(editor).to_have_count(0)
    expect(page.get_by_test_id("plan-table")).to_contain_text("ring-allreduce")
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("job-name")).to_have_text("by hand")
    job = client.job(re.search(r"/jobs/([\w-]+)", page.url)[1])
    with suppress(ApiError):  # it may have ended
        client.cancel(job.id)
    [override] = job.spec.overrides
    assert override.values == {"exchange": "ring-allreduce", "codec": "fp16"}
    assert override.layers == layer


def test_options_of_a_codec_are_changed_by_hand(page: Page, client: Client) -> None:
    open_form(page, "options", strategy="p3")
    open_editor(page)
    editor = page.get_by_test_id("plan-editor")
    row = editor.get_by_test_id(re.compile("^plan-editor-row-")).last
    layer = (row.get_attribute("data-testid") or "").removeprefix("plan-editor-row-")
    opens = row.get_by_test_id(f"options-{layer}-codec")
    expect(opens).to_have_count(0)  # fp32 has none
    row.get_by_label(re.compile("^Codec of")).select_option("top-k")
    opens.click()
    ratio = editor.get_by_test_id("field-codec_options.ratio")
    expect(ratio).to_have_value("0.01")
    expect(row).to_contain_text("changed by hand")
    expect(editor).to_have_attribute("aria-busy", "false")
    wire = row.get_by_role("cell").nth(2)
    few = in_bytes(wire.inner_text())

    ratio.fill("2")
    expect(editor.get_by_test_id(f"refused-{layer}")).to_contain_text("ratio: Must be from 0.0001 to 1")
    expect(ratio).to_have_attribute("aria-invalid", "true")
    ratio.fill("0.5")
    expect(editor.get_by_test_id(f"refused-{layer}")).to_have_count(0)
    expect(editor).to_have_attribute("aria-busy", "false")
    assert in_bytes(wire.inner_text()) > few

    page.keyboard.press("Escape")
    expect_the_plan(page)
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("job-name")).to_have_text("options")
    job = client.job(re.search(r"/jobs/([\w-]+)", page.url)[1])
    client.cancel(job.id)
    [override] = job.spec.overrides
    assert override.values == {"codec": "top-k", "codec_options": {"ratio": 0.5, "value_bits": 32}}


def test_what_was_changed_by_hand_is_undone(page: Page) -> None:
    open_form(page, "undone", strategy="ring-allreduce")
    open_editor(page)
    row = page.get_by_test_id(re.compile("^plan-editor-row-")).first
    departs = row.get_by_label(re.compile("^Depart of"))
    expect(departs).to_have_value("after-backward")
    departs.select_option("when-ready")
    expect(row).to_contain_text("changed by hand")
    expect(departs).to_have_value("when-ready")
    row.get_by_test_id(re.compile("^forget-")).click()
    expect(departs).to_have_value("after-backward")
    expect(row).not_to_contain_text("changed by hand")


def test_several_layers_are_changed_at_once_and_every_refusal_is_at_its_row(page: Page) -> None:
    open_form(page, "several", strategy="p3")
    open_editor(page)
    editor = page.get_by_test_id("plan-editor")
    bar = editor.get_by_test_id("several-layers")
    rows = editor.get_by_test_id(re.compile("^plan-editor-row-"))
    expect(rows.first).to_be_visible()
    everything = rows.count()
    bar.get_by_label("Class", exact=True).select_option("Conv2d")
    expect(rows).not_to_have_count(everything)
    convolutions = rows.count()
    assert 1 < convolutions < everything
    bar.get_by_label("Choice", exact=True).select_option("codec")
    bar.get_by_label("Value", exact=True).select_option("fp16")
    bar.get_by_test_id("set-several").click()
    note = editor.get_by_test_id("plan-note").filter(has_text="overrides.0: ")
    expect(note).to_contain_text(re.compile(r"overrides\.0: Conv2d layers \[.*\]: codec fp16"))
    for row in rows.all():
        expect(row.get_by_label(re.compile("^Codec of"))).to_have_value("fp16")

    bar.get_by_label("Choice", exact=True).select_option("exchange")
    bar.get_by_label("Value", exact=True).select_option("native")
    bar.get_by_test_id("set-several").click()
    refused = editor.get_by_test_id(re.compile("^refused-"))
    expect(refused).to_have_count(convolutions)
    for one in refused.all():
        expect(one).to_contain_text("would sum encoded values. Use fp32, or ring-allreduce")
    codec = rows.first.get_by_label(re.compile("^Codec of"))
    expect(codec).to_have_attribute("aria-invalid", "true")
    expect(editor.get_by_test_id("plan-editor-refused")).to_contain_text("nothing is launched like this")
    expect(note).to_have_count(1)

    editor.get_by_test_id("remove-override-0").click()
    expect(refused).to_have_count(0)
    expect(codec).to_have_value("fp32")


def test_the_editor_needs_no_mouse(page: Page) -> None:
    open_form(page, "keys", strategy="p3")
    expect_the_plan(page)
    page.get_by_test_id("edit-plan").focus()
    page.keyboard.press("Enter")
    rows = page.get_by_test_id(re.compile("^plan-editor-row-"))
    first, second = rows.nth(0), rows.nth(1)
    first.get_by_label(re.compile("^Exchange of")).focus()
    page.keyboard.press("Control+ArrowDown")
    expect(second.get_by_label(re.compile("^Exchange of"))).to_be_focused()
    page.keyboard.press("Control+ArrowRight")
    codec = second.get_by_label(re.compile("^Codec of"))
    expect(codec).to_be_focused()
    codec.select_option("fp16")
    expect(second).to_contain_text("changed by hand")
    page.keyboard.press("Delete")
    expect(codec).to_have_value("fp32")
    expect(codec).to_be_focused()
    expect(second).not_to_contain_text("changed by hand")
    codec.select_option("fp16")
    second.get_by_test_id(re.compile("^forget-")).focus()
    page.keyboard.press("Enter")
    expect(second.get_by_label(re.compile("^Exchange of"))).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("plan-editor")).to_have_count(0)
    expect(page.get_by_test_id("edit-plan")).to_be_focused()
