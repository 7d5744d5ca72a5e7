"""A fitted model in one file: a zip of NumPy arrays and one JSON header (docs/model-file.md). Nothing in it can run."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

import crowdfield
from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.inference import kernels, selection, vb
from crowdfield.inference.blur import evaluated_places
from crowdfield.inference.communities import Communities
from crowdfield.inference.fields.base import Statistics
from crowdfield.inference.instrument.fitting import State as InstrumentState
from crowdfield.inference.joint import state as joint
from crowdfield.models import inexact, instrument, learned
from crowdfield.models.base import Array
from crowdfield.models.covariates import Given, KnownCovariates, check_same
from crowdfield.models.problem import Gold, pose

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC

Model = TypeVar("Model", bound="HeatmapBCC")

FORMAT = "crowdfield model"
VERSION = 3  # before it, states were of other methods: such a file's reports are fitted again
State = joint.State | vb.State | InstrumentState | None
READ_FROM_FILE = "the file of the model says so, and not why"  # files of earlier versions
PLAIN = (str, int, float, bool, type(None))


class Stored(NamedTuple):
    """What a file holds besides the settings."""

    reports: Reports
    states: tuple[Any, ...]
    gold: Gold
    state: State  # None: one that this version cannot read
    lengthscale: Array  # [D]
    posterior: Array  # [N, J]
    learned: dict[str, Any]  # attributes by name
    tasks: Any = None  # [R] what every report is about, where several things share a place
    unsure: Any = None  # of a large fit of the instrument model: the uncertainty of the variances


def save(model: HeatmapBCC, path: str | os.PathLike[str]) -> None:
    """Write to a temporary file beside the target and rename: nothing half-written is left behind."""
    if model.inference_ == "gibbs":
        raise InputError("a model fitted by Gibbs is thousands of draws; save one fitted with inference='collapsed'.")
    reports = model.reports_
    header = {
        "format": FORMAT,
        "version": VERSION,
        "crowdfield": crowdfield.__version__,
        "settings": {name: _setting(name, value) for name, value in model.get_params(deep=False).items()},
        "states": _names(model.classes_.tolist(), "state"),
        "labels": _names(reports.labels, "label"),
        "sources": _names(reports.sources, "source"),
        "crs": reports.crs,
        "reports_model": model.reports_model_,
        "reports_model_reason": model.reports_model_reason_,
        "n_iter": model.n_iter_,
        "converged": bool(model.converged_),
        "bound_terms": model.bound_terms_,
    }
    arrays = {
        "places": reports.places,
        "label": reports.label.astype(np.int32),
        "source": reports.source.astype(np.int32),
        "gold_places": model._gold_[0],
        "gold_states": model._gold_[1],
        "lengthscale": model.lengthscale_,
        "posterior": model.posterior_,
        "bound_history": model.bound_history_,
    }
    if reports.time is not None:
        arrays["time"] = reports.time
    if reports.accuracy is not None:
        arrays["accuracy"] = reports.accuracy
    if reports.area is not None:
        arrays["area"] = reports.area
    if reports.score is not None:
        arrays["score"] = reports.score
    if reports.count is not None:
        arrays["count"] = reports.count
    if model.covariates is not None and model._setup.covariates is not None:
        places = evaluated_places(inexact.sites(model), model.places_.shape[1])
        kept = KnownCovariates.at(places, model.covariates, list(model._setup.covariates.names))
        header["covariates"] = list(kept.names)
        arrays |= {"covariate_places": kept.places, "covariate_values": kept.values}
    if model.reports_model_ == "instrument":
        arrays |= instrument.state_arrays(model)
    else:
        header["functions"] = len(model._solved.fit.state.statistics)
        arrays |= _arrays_of(model._solved.fit.state)
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent or Path("."), prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as box:
            box.writestr("header.json", json.dumps(header, ensure_ascii=False, indent=1))
            for name, array in arrays.items():
                buffer = io.BytesIO()
                np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
                box.writestr(f"{name}.npy", buffer.getvalue())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(cls: type[Model], path: str | os.PathLike[str], covariates: Given | None = None) -> Model:
    """Read a model that `save` wrote."""
    try:
        with zipfile.ZipFile(path) as box:
            header = json.loads(box.read("header.json"))
            if header.get("format") != FORMAT:
                raise InputError(f"{path} is not a crowdfield model.")
            if header["version"] > VERSION:
                raise InputError(
                    f"{path} was written by crowdfield {header['crowdfield']}, which is newer than this. Upgrade it."
                )
            arrays = {
                name[: -len(".npy")]: np.load(io.BytesIO(box.read(name)), allow_pickle=False)
                for name in box.namelist()
                if name.endswith(".npy")
            }
            return _restore(cls, header, arrays, covariates)
    except InputError:
        raise
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, IndexError, EOFError) as problem:
        raise InputError(f"{path} is not a crowdfield model, or it is damaged ({problem}).") from problem


def _restore(cls: type[Model], header: dict[str, Any], arrays: dict[str, Any], covariates: Given | None) -> Model:
    """A model from the header and the arrays of its file."""
    settings = {name: _restored(name, value) for name, value in header["settings"].items()}
    if "covariates" in header:
        places, values = arrays["covariate_places"], arrays["covariate_values"]
        names = tuple(header["covariates"])
        if isinstance(covariates, KnownCovariates):
            covariates = replace(covariates, names=names)
        kept = KnownCovariates(places, values, names, covariates)
        if covariates is not None:
            check_same(kept, covariates)
        settings["covariates"] = kept
    elif covariates is not None:
        raise InputError("this model was fitted without covariates; leave them out, or make a new model.")
    model = cls(**settings)
    reports = Reports(
        places=arrays["places"],
        label=arrays["label"].astype(np.int64),
        source=arrays["source"].astype(np.int64),
        labels=tuple(header["labels"]),
        sources=tuple(header["sources"]),
        time=arrays.get("time"),
        accuracy=arrays.get("accuracy"),
        area=arrays.get("area"),
        score=arrays.get("score"),
        count=arrays.get("count"),
        crs=header["crs"],
    )
    learned = {
        "bound_terms_": header["bound_terms"],
        "bound_": float(sum(header["bound_terms"].values())),
        "bound_history_": arrays["bound_history"],
        "n_iter_": header["n_iter"],
        "converged_": header["converged"],
        "reports_model_reason_": header.get("reports_model_reason", READ_FROM_FILE),
    }
    gold = Gold(arrays["gold_places"], arrays["gold_states"])
    _learn_again(
        model,
        Stored(
            reports,
            tuple(header["states"]),
            gold,
            _state_of(header, arrays),
            arrays["lengthscale"],
            arrays["posterior"],
            learned,
            arrays.get("tasks"),
            instrument.read_unsure(arrays),
        ),
    )
    return model


def _learn_again(model: HeatmapBCC, read: Stored) -> None:
    """Restore the saved state of the model; fit again only if the file does not hold it."""
    model.n_features_in_ = read.reports.places.shape[1]
    posed = pose(model, read.reports, read.states, read.gold).with_lengthscales(read.lengthscale)
    given = learned.FitInput(posed, read.reports, read.states, read.gold, read.tasks)
    model.model_comparison_ = None
    model._compared_reports = model._learned_reports = len(read.reports)
    if read.state is None:
        solved = selection.solve(posed, None, max_iter=model.max_iter, tol=model.tol)
        learned.keep_input(model, given)
        learned.keep_fit(model, solved, solved.solver.responsibilities(solved.fit.q))
        model.reports_model_reason_ = READ_FROM_FILE
        return
    learned.keep_input(model, given)
    if isinstance(read.state, InstrumentState):
        model._tasks = read.tasks
        learned.keep_instrument(model, *instrument.restore(model, posed, read), read.states)
    else:
        learned.keep_solution(model, selection.restore(posed, read.state), read.posterior)
    for name, value in read.learned.items():
        setattr(model, name, value)


def _arrays_of(state: joint.State | vb.State) -> dict[str, Array]:
    """The state of a fit of the one-state model as named arrays; `_state_of` is the inverse."""
    arrays: dict[str, Any] = {"precision": np.array([state.precision])}
    if state.communities is not None:
        arrays["community_beta"], arrays["community_weight"] = state.communities.beta, state.communities.weight
        arrays["community_free"] = state.communities.free
    for j, statistics in enumerate(state.statistics):
        arrays[f"linear_{j}"], arrays[f"quadratic_{j}"] = statistics.linear, statistics.quadratic
    if isinstance(state, vb.State):
        return arrays | {"counts": state.counts}
    arrays |= {"alpha0": state.alpha0, "centre": np.stack(state.centre), "length": np.array([state.length])}
    return arrays | {f"rows_{name}": value for name, value in state.rows._asdict().items()}


def _state_of(header: dict[str, Any], arrays: dict[str, Any]) -> State:
    """The state of a fit from the arrays of a file; None for files of earlier versions, which are fitted again."""
    if header["version"] < VERSION:
        return None
    if header["reports_model"] == "instrument":
        return instrument.read_state(arrays)
    communities = None
    if "community_beta" in arrays:
        communities = Communities(arrays["community_beta"], arrays["community_weight"], arrays["community_free"])
    functions = range(header["functions"])
    statistics = tuple(Statistics(arrays[f"linear_{j}"], arrays[f"quadratic_{j}"]) for j in functions)
    precision = float(arrays["precision"][0])
    if "counts" in arrays:
        return vb.State(arrays["counts"], statistics, precision, communities)
    rows = joint.Rows(**{name: arrays[f"rows_{name}"] for name in joint.Rows._fields})
    centre = tuple(arrays["centre"])
    return joint.State(arrays["alpha0"], rows, statistics, centre, float(arrays["length"][0]), precision, communities)


def _names(names: Any, what: str) -> list[Any]:
    for name in names:
        if not isinstance(name, PLAIN):
            raise InputError(f"{what} {name!r} cannot be saved: use strings or numbers as {what}s.")
    return list(names)


def _setting(name: str, value: Any) -> Any:
    """A constructor argument as JSON."""
    if name == "covariates":
        return None  # their values at the model's places are kept instead
    if callable(value) and not isinstance(value, kernels.Kernel):
        raise InputError(f"{name} is a function, which cannot be saved. Save its values as data, and fit again.")
    if isinstance(value, kernels.Kernel):
        return _kernel(value)
    if isinstance(value, dict):
        return {"by source": [[key, np.asarray(matrix).tolist()] for key, matrix in value.items()]}
    if isinstance(value, np.random.Generator):
        return None
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _restored(name: str, value: Any) -> Any:
    """A constructor argument from JSON; the inverse of `_setting`."""
    if isinstance(value, dict) and "by source" in value:
        return {key: matrix for key, matrix in value["by source"]}
    if isinstance(value, dict) and "kernel" in value:
        return _as_kernel(value)
    return value


def _kernel(value: kernels.Kernel) -> dict[str, Any]:
    """A kernel as JSON."""
    if isinstance(value, kernels.Product):
        return {"kernel": "product", "factors": [_kernel(f) for f in value.factors], "columns": value.columns}
    for name, kind in kernels.KERNELS.items():
        if type(value) is kind:
            return {"kernel": name, "lengthscale": value.lengthscale}
    raise InputError(f"a kernel of type {type(value).__name__} cannot be saved: it is not one of crowdfield's own.")


def _as_kernel(value: dict[str, Any]) -> kernels.Kernel:
    if value["kernel"] == "product":
        factors = tuple(_as_kernel(f) for f in value["factors"])
        return kernels.Product(factors, tuple(tuple(c) for c in value["columns"]))
    return kernels.kernel(value["kernel"], value["lengthscale"])
