"""The rules of a Run (section 4): divisibility, whole steps, what a template may not set, and what never changes."""

from __future__ import annotations

from kubectl_runs.wire import times
from kubectl_runs.wire.schema.rules import Json, Rule, Rules, Transition, value

GPU_RESOURCE = "nvidia.com/gpu"
NAME_MAX = 40  # leaves room for rank and nonce in the names of its pods


def group_gpus(spec: Json, without: str) -> int:
    """The group of a malleable run defaults to its step; `without` groups another number serves, which fits anyway."""
    step = value(spec, "malleable.stepGPUs", spec["resources"][without])
    return int(value(spec, "locality.groupGPUs", step))


def _steps_from_min(spec: Json) -> bool:
    malleable = spec.get("malleable")
    if malleable is None:
        return True
    low, high, step = malleable["minTotalGPUs"], malleable["maxTotalGPUs"], malleable["stepGPUs"]
    total = spec["resources"]["totalGPUs"]
    widths = (total, malleable.get("desiredTotalGPUs", total), high)
    return all(low <= width <= high and (width - low) % step == 0 for width in widths)


def _gpu_amounts(spec: Json) -> list[list[str]]:
    """What each container asks for in GPUs itself."""
    containers = spec["template"]["spec"]["containers"]
    kinds = ("limits", "requests")
    asked = [[(item.get("resources", {}).get(kind) or {}).get(GPU_RESOURCE) for kind in kinds] for item in containers]
    return [[str(amount) for amount in amounts if amount is not None] for amounts in asked]


def _own_gpus_equal(spec: Json) -> bool:
    return all(amount == str(spec["resources"]["gpusPerPod"]) for asked in _gpu_amounts(spec) for amount in asked)


def _frozen(spec: Json, old: Json) -> bool:
    return _less_changeable(spec) == _less_changeable(old)


def _less_changeable(spec: Json) -> Json:
    kept = {key: part for key, part in spec.items() if key not in ("funding", "canceled")}
    if "malleable" in kept:
        kept["malleable"] = {key: part for key, part in kept["malleable"].items() if key != "desiredTotalGPUs"}
    return kept


_GROUP_CEL = "self.?locality.?groupGPUs.orValue(self.?malleable.?stepGPUs.orValue(self.resources.{without}))"
_GROUP_OR_TOTAL, _GROUP_OR_POD = (_GROUP_CEL.format(without=name) for name in ("totalGPUs", "gpusPerPod"))
_DESIRED_CEL = "self.malleable.?desiredTotalGPUs.orValue(self.resources.totalGPUs)"
_GPU_CEL = "nvidia__dot__com__slash__gpu"  # a name that CEL can spell
_FROZEN = ("resources", "template", "sparesPerGroup", "opportunistic")
_FROZEN_IF_ANY = ("owner", "locality", "duration", "runtime")


def _gpus_equal(amounts: str) -> str:
    """Number or text. A conversion of the amount itself would have no bound that CEL's estimator could see."""
    amount, wanted = f"{amounts}.{_GPU_CEL}", "self.resources.gpusPerPod"
    return f"(!has({amounts}) || !has({amount}) || {amount} == {wanted} || {amount} == string({wanted}))"


def _same_if_any(name: str) -> str:
    """`self.?x == oldSelf.?x` says the same, but CEL's estimator takes its cost for unbounded."""
    return f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"


RULES: Rules = (
    Rule(
        at="",
        message="the name of a run must have at most 40 characters",
        cel=f"self.metadata.name.size() <= {NAME_MAX}",
        holds=lambda run: len(value(run, "metadata.name", "")) <= NAME_MAX,
    ),
    Rule(
        at="spec",
        message="resources.gpusPerPod must divide resources.totalGPUs",
        cel="self.resources.totalGPUs % self.resources.gpusPerPod == 0",
        holds=lambda spec: spec["resources"]["totalGPUs"] % spec["resources"]["gpusPerPod"] == 0,
    ),
    Rule(
        at="spec",
        message="resources.gpusPerPod must divide locality.groupGPUs (of a malleable run by default its stepGPUs)",
        cel=f"{_GROUP_OR_POD} % self.resources.gpusPerPod == 0",
        holds=lambda spec: group_gpus(spec, "gpusPerPod") % spec["resources"]["gpusPerPod"] == 0,
    ),
    Rule(
        at="spec",
        message="locality.groupGPUs (of a malleable run by default its stepGPUs) must divide resources.totalGPUs",
        cel=f"self.resources.totalGPUs % {_GROUP_OR_TOTAL} == 0",
        holds=lambda spec: spec["resources"]["totalGPUs"] % group_gpus(spec, "totalGPUs") == 0,
    ),
    Rule(
        at="spec",
        message="locality.groupGPUs must divide malleable.stepGPUs",
        cel=f"!has(self.malleable) || self.malleable.stepGPUs % {_GROUP_OR_TOTAL} == 0",
        holds=lambda spec: value(spec, "malleable.stepGPUs", 0) % group_gpus(spec, "totalGPUs") == 0,
    ),
    Rule(
        at="spec",
        message="totalGPUs, desiredTotalGPUs and maxTotalGPUs must be minTotalGPUs plus whole steps up to maxTotalGPUs",
        cel=(
            f"!has(self.malleable) || [self.resources.totalGPUs, {_DESIRED_CEL}, self.malleable.maxTotalGPUs].all(w,"
            " w >= self.malleable.minTotalGPUs && w <= self.malleable.maxTotalGPUs"
            " && (w - self.malleable.minTotalGPUs) % self.malleable.stepGPUs == 0)"
        ),
        holds=_steps_from_min,
    ),
    Rule(
        at="spec",
        message="duration must be longer than nothing",
        cel="!has(self.duration) || duration(self.duration) > duration('0s')",
        holds=lambda spec: times.duration(spec.get("duration", "1s")) > 0,
    ),
    Rule(
        at="spec.template.spec",
        message="nodeName must not be set: the planner chooses the node",
        cel="!has(self.nodeName)",
        holds=lambda pod: "nodeName" not in pod,
    ),
    Rule(
        at="spec.template.spec",
        message="schedulerName must not be set: the plugin binds the pods itself",
        cel="!has(self.schedulerName)",
        holds=lambda pod: "schedulerName" not in pod,
    ),
    Rule(
        at="spec.template.spec",
        message="restartPolicy must be Never or OnFailure",
        cel="!has(self.restartPolicy) || self.restartPolicy in ['Never', 'OnFailure']",
        holds=lambda pod: pod.get("restartPolicy", "Never") in ("Never", "OnFailure"),
    ),
    Rule(
        at="spec",
        message="a container's own nvidia.com/gpu request must equal resources.gpusPerPod",
        cel=(
            "self.template.spec.containers.all(c, !has(c.resources)"
            f" || ({_gpus_equal('c.resources.limits')} && {_gpus_equal('c.resources.requests')}))"
        ),
        holds=_own_gpus_equal,
    ),
    Rule(
        at="spec.template.spec",
        message="only one container may request nvidia.com/gpu",
        cel=(
            f"self.containers.filter(c, c.?resources.?limits.?{_GPU_CEL}.hasValue()"
            f" || c.?resources.?requests.?{_GPU_CEL}.hasValue()).size() <= 1"
        ),
        holds=lambda pod: sum(map(bool, _gpu_amounts({"template": {"spec": pod}}))) <= 1,
    ),
    Transition(
        at="spec",
        message="only malleable.desiredTotalGPUs, funding and canceled may change after a run was created",
        cel=" && ".join(
            (
                *(f"self.{name} == oldSelf.{name}" for name in _FROZEN),
                *(_same_if_any(name) for name in _FROZEN_IF_ANY),
                "has(self.malleable) == has(oldSelf.malleable)",
                *(
                    f"(!has(self.malleable) || self.malleable.{name} == oldSelf.malleable.{name})"
                    for name in ("minTotalGPUs", "maxTotalGPUs", "stepGPUs")
                ),
            )
        ),
        holds=_frozen,
    ),
    Transition(
        at="spec",
        message="canceled must not be taken back",
        cel="!oldSelf.?canceled.orValue(false) || self.?canceled.orValue(false)",
        holds=lambda spec, old: not old.get("canceled", False) or bool(spec.get("canceled", False)),
    ),
)
