"""Plan previews, what a plan lets workers hold in memory, and where codecs pay."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from backend.api.body import SpecBody
from backend.api.deps import Asking, Services, problems
from backend.api.figures import FIGURE, Theme, Width, compressed
from backend.schemas.memory import LargestBatchView, MemoryView
from backend.schemas.paying import PayingView
from backend.schemas.plans import PlanView

router = APIRouter(prefix="/plans", tags=["plans"])


@router.post("", responses=problems(415, 422, 503))
def preview_plan(services: Services, spec: SpecBody, asker: Asking) -> PlanView:
    """The plan that a submission would get, stored nowhere; refused exactly where a submission would be."""
    return services.jobs.preview(spec, asker)


@router.post("/memory", responses=problems(415, 422, 503))
def predict_memory(services: Services, spec: SpecBody, asker: Asking) -> MemoryView:
    """What worker 0 of the job, or the fullest stage of a pipeline, would hold in memory at the highest moment of a
    step, and of each layer for backward, beside what the plan declares. Found without a device: the worker's own code
    runs on tensors without values, which takes seconds. 422 where the plan would be refused, or where nobody can
    predict it: for CUDA, workers that go at their own pace, parts of a hybrid model, fsdp, hooks of DDP's, bf16,
    rehearsals, and models that look at values."""
    return services.peaks.predict(spec, asker)


@router.post("/codecs", responses=problems(415, 422, 503))
def find_where_codecs_pay(services: Services, spec: SpecBody, asker: Asking) -> PayingView:
    """From which rate of a host's link down each codec would save time in a step of this job, in place of its own: from
    the bytes that its plan would move through the busiest port, and from what encoding and decoding takes on one core
    of this machine, which is measured once. It assumes that both are waited for, one after the other, and says nothing
    about accuracy. 422 where the plan would be refused, or where the strategy has no codec."""
    return services.paying.find(spec, asker)


Memory = Annotated[
    str, Query(max_length=60, description="Of a worker: `16GiB`, `600MB` or a number of bytes")
]


@router.post("/largest-batch", responses=problems(415, 422, 503))
def largest_batch(services: Services, spec: SpecBody, asker: Asking, memory: Memory) -> LargestBatchView:
    """The largest batch that worker 0 of the job can have in a given memory, whatever the job's own batch and budget
    are: with all activations kept, swapped, and computed again, and with what a budget chooses; with the predicted
    peak, how much longer a pass takes, and what one sample more would go beyond. It takes some seconds for each. 422 as
    for `/plans/memory`, and where not one sample fits, with what one takes."""
    return services.peaks.largest(spec, memory, asker)


@router.post(
    "/largest-batch/figure",
    response_class=Response,
    responses={200: FIGURE[200], **problems(415, 422, 503)},
)
def draw_largest_batch(
    services: Services,
    request: Request,
    spec: SpecBody,
    asker: Asking,
    *,
    memory: Memory,
    width: Width = 1280,
    theme: Theme = "light",
) -> Response:
    """The largest batch over a worker's memory, and how fast it is trained, for each way to treat activations: what
    `/plans/largest-batch` answers, with some smaller batches of each way. It takes some seconds for each."""
    curve = services.peaks.curve(spec, memory, asker)
    content = services.figures.of_plan("largest-batch", curve, {"width": width, "theme": theme})
    return compressed(request, content, {"Cache-Control": "no-store", "Vary": "Accept-Encoding"})
