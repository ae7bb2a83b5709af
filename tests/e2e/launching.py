"""Launch's form as a person fills it in: sections are closed until somebody opens one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from playwright.sync_api import expect

from tests.backend.job_specs import job_spec

if TYPE_CHECKING:
    from playwright.sync_api import Page

STEPS = 12


def open_section(page: Page, name: str) -> None:
    """Open it; it must be closed."""
    control = page.get_by_test_id(f"open-{name}")
    assert control.get_attribute("aria-expanded") == "false", name
    control.click()


def fill_form(page: Page, name: str, *, strategy: str, workers: int) -> None:
    """A job of so many workers under a strategy; of the others than the recommended ones, too."""
    page.goto("/launch")
    page.get_by_test_id("field-name").fill(name)
    open_section(page, "strategy")
    page.get_by_test_id("more-strategies").click()
    page.get_by_test_id(f"strategy-{strategy}").click()
    open_section(page, "cluster")
    page.get_by_test_id("field-cluster.workers").fill(str(workers))
    open_section(page, "training")
    page.get_by_test_id("field-training.epochs").fill("")
    page.get_by_test_id("field-training.steps").fill(str(STEPS))


def open_file(page: Page, text: str, name: str = "job.yaml") -> None:
    """Choose a file with this text."""
    file = {"name": name, "mimeType": "application/yaml", "buffer": text.encode()}
    page.get_by_label("A job's file").set_input_files(files=[file])


def open_spec(page: Page, file: str, **changes: Any) -> None:
    """Choose a file whose specification fills the form."""
    open_file(page, yaml.safe_dump(job_spec(**changes)), file)
    expect(page.get_by_test_id("filled-from")).to_contain_text(f"Filled from {file}.")


def open_form(page: Page, name: str, *, strategy: str) -> None:
    """The form, filled from a file: a job of two workers with a small network of few layers, for who tests what comes
    after the form."""
    page.goto("/launch")
    training = {"steps": STEPS, "global_batch": 32}
    open_spec(
        page, "small.yaml", name=name, model={"name": "cnn"}, strategy={"name": strategy}, training=training
    )


def expect_the_plan(page: Page) -> None:
    """Wait until the plan that is shown is the form's: until then it is that of what the form said before."""
    expect(page.get_by_test_id("plan-preview")).to_have_attribute("aria-busy", "false")


def open_editor(page: Page) -> None:
    """Open the editor of the form's plan."""
    expect_the_plan(page)
    page.get_by_test_id("edit-plan").click()
