"""The page about people: an admin lets somebody in, gives them a token, and sends them away; they see what they may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.guarded import TOKEN
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.e2e.axe import bring, serious
from tests.e2e.conftest import new_context
from tests.e2e.test_sign_in import sign_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def people(server_lane: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that asks, with a job that waits."""
    with LiveServer(
        tmp_path_factory.mktemp("people"), scheduler=False, warm_jobs=True, token=TOKEN
    ) as server:
        with Client(server.url, token=TOKEN) as client:
            client.submit(job_spec("kept"))
        yield server


@pytest.fixture
def pages(browser: Browser, people: LiveServer) -> Iterator[tuple[Page, Page]]:
    """Two people's. Afterwards: neither broke."""
    contexts = [new_context(browser, people.url) for _ in range(2)]
    one, other = (context.new_page() for context in contexts)
    broken: list[str] = []
    for page in (one, other):
        page.on("pageerror", lambda error: broken.append(str(error)))
    yield one, other
    for context in contexts:
        context.close()
    assert not broken


def looks_only(page: Page) -> None:
    """Nothing is offered that the service would refuse."""
    expect(page.get_by_test_id("nav-launch")).to_have_count(0)
    page.get_by_test_id("nav-jobs").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    expect(page.get_by_test_id("delete")).to_have_count(0)
    page.get_by_text("kept", exact=True).click()
    expect(page.get_by_test_id("job-name")).to_be_visible()
    expect(page.get_by_test_id("launch-again")).to_have_count(0)
    expect(page.get_by_role("link", name="Launch")).to_have_count(0)


def test_an_admin_lets_somebody_in_and_sends_them_away(pages: tuple[Page, Page]) -> None:
    admin, ada = pages
    bring(admin)
    admin.goto("/people")
    sign_in(admin)
    expect(admin.get_by_test_id("nav-people")).to_be_visible()
    expect(admin.get_by_test_id("people")).to_contain_text("You are admin")
    admin.get_by_test_id("new-user").fill("ada")
    admin.get_by_test_id("add-user").click()
    expect(admin.get_by_test_id("user-ada")).to_contain_text("0 tokens")

    admin.get_by_test_id("new-token").fill("laptop")
    admin.get_by_test_id("new-token-user").click()
    admin.get_by_role("option", name="ada").click()
    admin.get_by_test_id("make-token").click()
    token = admin.get_by_test_id("the-token").inner_text()
    assert len(token) >= 43
    assert serious(admin) == []
    admin.reload()
    expect(admin.get_by_test_id("user-ada")).to_contain_text("1 token")
    assert token not in admin.content(), "it was shown once"

    ada.goto("/jobs")
    sign_in(ada, token)
    expect(ada.get_by_test_id("nav-launch")).to_be_visible()
    ada.get_by_text("kept", exact=True).click()
    expect(ada.get_by_test_id("launch-again")).to_be_visible()
    expect(ada.get_by_test_id("cancel")).to_have_count(0)
    ada.get_by_test_id("nav-tokens").click()
    expect(ada.get_by_test_id("people")).to_contain_text("You are ada, signed in as a member")
    expect(ada.get_by_test_id("tokens")).to_contain_text("laptop")
    expect(ada.get_by_test_id("users")).to_have_count(0)
    expect(ada.get_by_test_id("audit")).to_have_count(0)

    admin.get_by_test_id("role-ada").click()
    admin.get_by_role("option", name="viewer").click()
    expect(admin.get_by_test_id("audit-table")).to_contain_text("viewer, was member")
    ada.reload()
    expect(ada.get_by_test_id("people")).to_contain_text("signed in as a viewer")
    looks_only(ada)

    admin.get_by_test_id("remove-ada").click()
    admin.get_by_test_id("confirm").click()
    expect(admin.get_by_test_id("user-ada")).to_have_count(0)
    expect(admin.get_by_test_id("audit-table")).to_contain_text("users/ada")
    ada.reload()
    expect(ada.get_by_test_id("sign-in")).to_be_visible()


def test_whose_role_is_lowered_or_who_signs_in_as_another_sees_nothing_of_before(
    pages: tuple[Page, Page], people: LiveServer
) -> None:
    page, _ = pages
    bring(page)
    with Client(people.url, token=TOKEN) as client:
        client.add_user("eve", "admin")
        eves = client.make_token("laptop", user="eve")
        page.goto("/people")
        sign_in(page, eves.token)
        page.get_by_test_id("new-token").fill("seen once")
        page.get_by_test_id("make-token").click()
        made = page.get_by_test_id("the-token").inner_text()
        page.get_by_test_id("role-eve").click()
        page.get_by_role("option", name="viewer").click()
        expect(page.get_by_test_id("people")).to_contain_text("You are eve, signed in as a viewer")
        expect(page.get_by_test_id("users")).to_have_count(0)
        assert made not in page.content()
        page.goto("/launch")
        expect(page.get_by_test_id("may-not-launch")).to_contain_text("An admin makes you one: admin")
        expect(page.get_by_test_id("field-name")).to_have_count(0)
        assert serious(page) == []
        page.goto("/people")
        page.get_by_test_id("new-token").fill("seen once more")
        page.get_by_test_id("make-token").click()
        made = page.get_by_test_id("the-token").inner_text()
        client.revoke_token(eves.id)
        page.get_by_test_id("new-token").fill("refused")
        page.get_by_test_id("make-token").click()
        expect(page.get_by_test_id("sign-in")).to_be_visible()
        sign_in(page)
        expect(page.get_by_test_id("people")).to_contain_text("You are admin")
        assert made not in page.content()
        client.remove_user("eve")


def test_the_page_is_whole_on_a_phone_and_in_the_dark(pages: tuple[Page, Page]) -> None:
    page, _ = pages
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    bring(page)
    page.goto("/people")
    sign_in(page)
    page.get_by_test_id("new-secret").fill("hf_token")
    page.get_by_test_id("new-secret-value").fill("hf_abcdefghijklmnop")
    page.get_by_test_id("keep-secret").click()
    expect(page.get_by_test_id("secret-HF_TOKEN")).to_be_visible()
    page.get_by_test_id("new-webhook").fill("our chat")
    page.get_by_test_id("new-webhook-url").fill("https://chat.example.org/hooks/42")
    page.get_by_test_id("make-webhook").click()
    expect(page.get_by_test_id("made-webhook")).to_contain_text("whsec_")
    for field in ("new-secret", "new-secret-value", "new-webhook", "new-webhook-url"):
        expect(page.get_by_test_id(field)).to_have_value("")
    expect(page.get_by_test_id("audit-table")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert serious(page) == []
