"""Logs: opened at the process that failed, searched, with the times of their lines, and taken along."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.job_specs import job_spec

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
OWN = """import os
from torch import nn

class Unlucky(nn.Sequential):
    def forward(self, batch):
        if not batch.is_meta and os.readlink('/proc/self/fd/1').endswith('worker-1.log'):
            print('Loss (x) is odd', flush=True)
            print('loss (x) is even', flush=True)
            raise RuntimeError('bad luck')
        return super().forward(batch)

def build():
    return Unlucky(nn.Flatten(), nn.Linear(64, 10))
"""


def looked_for(page: Page, wanted: str) -> None:
    page.wait_for_function("text => new URL(location).searchParams.get('find') === text", arg=wanted)


def test_a_failed_jobs_log_is_opened_searched_timed_and_taken_along(
    page: Page, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    model = {"entrypoint": "own:build", "directory": str(tmp_path)}
    job = client.submit(job_spec("unlucky", model=model))
    assert client.wait(job.id, timeout_s=150).state == "failed"
    written = client.logs(job.id, "worker 1")
    assert written.failed == "worker 1"
    assert written.times.until[-1] == written.size

    page.goto(f"/jobs/{job.id}?tab=logs")
    log = page.get_by_test_id("log-text")
    expect(log).to_have_text(written.text)
    expect(page.get_by_test_id("log-party")).to_contain_text("worker 1 (failed)")

    page.keyboard.press("/")
    field = page.get_by_test_id("log-find")
    expect(field).to_be_focused()
    field.press_sequentially("LOSS ")
    looked_for(page, "LOSS ")  # also what ends in a space, and nothing is taken away from who types on
    expect(field).to_have_value("LOSS ")
    field.press_sequentially("(X)")
    looked_for(page, "LOSS (X)")
    found = page.get_by_test_id("log-matches")
    count = len(re.findall(re.escape("loss (x)"), written.text, re.IGNORECASE))
    assert count > 1
    expect(found).to_have_text(f"1 of {count}")
    expect(log.locator("mark")).to_have_count(count)
    field.press("Enter")
    expect(found).to_have_text(f"2 of {count}")
    expect(log.locator("mark[data-current]")).to_have_text("loss (x)")
    expect(page).to_have_url(re.compile("find="))

    page.get_by_test_id("log-times").check(force=True)
    expect(log).to_have_text(re.compile(r"^\s*\d\d:\d\d:\d\d  "))
    with page.expect_download() as download:
        page.get_by_test_id("log-download").click()
    assert download.value.suggested_filename == "unlucky-worker-1-attempt-1.log"
    assert download.value.path().read_text() == written.text

    page.reload()
    expect(field).to_have_value("LOSS (X)")
    expect(found).to_have_text(f"1 of {count}")
