"""The tasks of a helper process: exports, lists of reports, reasons, tiles, figures of districts, outlines."""

import base64
import json
import logging
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdfield import geography
from crowdfield.data import Region
from crowdfield.errors import InputError
from crowdfield.service import answers, basemap, cells, exports, moments, tiles
from crowdfield.service.cells import Cells
from crowdfield.service.database import connect
from crowdfield.service.districts import Districts, areas_of
from crowdfield.service.maps import JUST_CHANGED, Frame, MapArrays, Maps, RecentCache
from crowdfield.service.packing import BEST, Packed, pack_files, pack_json
from crowdfield.service.problems import Problem
from crowdfield.service.publishing import Minimum, Share, coarse, grouped_reasons
from crowdfield.service.records import SHOWS_REPORTS, Situation, VersionInfo
from crowdfield.service.reportlists import ReportLists
from crowdfield.service.reporttable import Filter
from crowdfield.service.schemas import finite
from crowdfield.service.store import Store, Unknown
from crowdfield.service.weights import Weights

if TYPE_CHECKING:
    from crowdfield.service.reasons import Explained

log = logging.getLogger("crowdfield.service")
# How many models are cached: one of 100,000 reports takes about 200 MB.
MODELS_KEPT = 2
MAP_BYTES = 256 * 2**20
GEOJSON = "application/geo+json"
# For figures of a polygon in a URL: the level of the intervals, and the threshold on shares.
AREA_LEVEL, AREA_THRESHOLD = 0.9, 0.5


class Maker:
    """Answers the questions of the server, and caches the models and tables used last."""

    def __init__(self, hello: dict[str, Any]):
        self._store = Store(connect(hello["database"], pool_size=1))
        self._districts, self._weights = Districts(self._store.engine), Weights(self._store.engine)
        self._minimum = Minimum(hello["minimum_count"], hello["minimum_sources"])
        self._maps = Maps(self._store, size=MAP_BYTES)
        self._cells = Cells(self._store, self._minimum, hello["period_hours"])
        self._models: RecentCache[Any] = RecentCache(MODELS_KEPT)
        self._lists = ReportLists(self._store, self._cells, self._report_probabilities)

    def make(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer one question of the server."""
        tasks: dict[str, Callable[..., dict[str, Any]]] = {
            "export": self.export,
            "frame": self.frame,
            "points": self.points,
            "items": self.items,
            "item": self.item,
            "reasons": self.reasons,
            "ready": self.ready,
            "warm": self.warm,
            "moderation": self.moderation,
            "tile": self.tile,
            "legend": self.legend,
            "basemap": self.basemap,
            "point_tile": self.point_tile,
            "reports": self.reports,
            "report": self.report,
            "times": self.times,
            "totals": self.totals,
            "area": self.area,
            "check_plan": self.check_plan,
            "check_result": self.check_result,
        }
        return tasks[question["task"]](**{name: value for name, value in question.items() if name != "task"})

    def frame(self, situation: str, version: int, moment: float, target: str) -> dict[str, Any]:
        """The arrays of a version at one of its moments, as a file for the tasks that take a `frame`."""
        found, info = self._version(situation, version)
        model = self._model(found, version)
        if model is None:
            raise Problem(404, moments.ONLY_NEWEST)
        from crowdfield.service import drawing

        path, cells = Path(target), self._maps.load(found, version).reports
        path.write_bytes(drawing.draw_moment(model, found, info.info, moment, cells))
        return _describe_files(pack_files(path, "application/octet-stream", {}))

    def export(
        self, situation: str, version: int, form: str, exact: bool, frame: list[Any] | None, target: str
    ) -> dict[str, Any]:
        """A version as a file, with the counts of reports that the caller may see."""
        found, info = self._version(situation, version)
        now = self._maps.load(found, version, _frame(frame))
        reports = None if exact else self._cells.load(found, info).counts(found.grid)
        path, media, headers = exports.write(now, form, Path(target), reports=reports)
        return _describe_files(pack_files(path, media, headers))

    def points(self, situation: str, version: int, exact: bool, target: str) -> dict[str, Any]:
        """The reports of a version as the page draws them: each report, or counts by cell."""
        found, info = self._version(situation, version)
        if exact:
            rows = self._store.active_reports(found.id, upto=info.head, newest=answers.POINTS_SHOWN)
            features = answers.exact_features(rows)
        else:
            features = cells.features(found, cells.fullest(self._cells.load(found, info).whole))
        total = info.reports
        body = {"type": "FeatureCollection", "exact": exact, "total": total, "features": features}
        return _write_files(pack_json(body), Path(target))

    def point_tile(
        self,
        situation: str,
        version: int,
        z: int,
        x: int,
        y: int,
        wanted: dict[str, Any],
        exact: bool,
        head: int | None,
    ) -> dict[str, Any]:
        """A vector tile of the reports of a version: of single reports, or of cells."""
        found, info = self._version(situation, version)
        return _image(self._lists.point_tile(found, info, z, x, y, Filter(**wanted), exact=exact))

    def reports(
        self, situation: str, version: int, wanted: dict[str, Any], offset: int, limit: int, head: int, target: str
    ) -> dict[str, Any]:
        """A page of the reports that match a filter, each in full."""
        found, info = self._version(situation, version)
        body = self._lists.page(found, info, Filter(**wanted), offset, limit)
        return _write_files(pack_json(body, GEOJSON), Path(target))

    def report(self, situation: str, version: int, report: str, head: int, target: str) -> dict[str, Any]:
        found, info = self._version(situation, version)
        return _write_files(pack_json(self._lists.one(found, info, report), GEOJSON), Path(target))

    def times(self, situation: str, version: int, exact: bool, head: int | None) -> dict[str, Any]:
        found, info = self._version(situation, version)
        return self._lists.times(found, info, exact=exact)

    def items(
        self,
        situation: str,
        version: int,
        box: list[float] | None,
        since: float | None,
        until: float | None,
        offset: int,
        limit: int,
        links: list[dict[str, str]],
        onwards: dict[str, str],
        target: str,
    ) -> dict[str, Any]:
        """A page of the cells that readers may see; box and time filter by their published centres and periods."""
        found, info = self._version(situation, version)
        rows = self._cells.load(found, info).select(since, until)
        matching = cells.features(found, rows, tuple(box) if box else None)  # type: ignore[arg-type]
        page = matching[offset : offset + limit]
        more = [onwards] if len(matching) > offset + limit else []
        body = {"type": "FeatureCollection", "features": page, "numberReturned": len(page), "links": [*links, *more]}
        return _write_files(pack_json(body, GEOJSON), Path(target))

    def item(self, situation: str, version: int, item: str, links: list[dict[str, str]], target: str) -> dict[str, Any]:
        found, info = self._version(situation, version)
        for row in self._cells.load(found, info).whole:
            if f"{cells.PREFIX}{row.cell}" == item:
                return _write_files(
                    pack_json({**cells.features(found, [row])[0], "links": links}, GEOJSON), Path(target)
                )
        raise Problem(404, answers.NO_SUCH_REPORT)

    def reasons(
        self, situation: str, version: int, cell: int, state: int, moment: float | None, exact: bool
    ) -> dict[str, Any]:
        """The reasons for what the newest version says about a cell; older versions have no model to explain them."""
        found, info = self._version(situation, version)
        count = None if exact else self._cells.load(found, info).count(cell)
        why = self._explained(found, info, cell, state, moment, exact)
        return {"why": why, "count": count, "sea": self._at_sea(found, info, cell)}

    def ready(self) -> dict[str, Any]:
        """Load the code of the models, before the first question that needs it."""
        import crowdfield.models.heatmap_bcc
        import crowdfield.service.fit
        import crowdfield.service.reasons  # noqa: F401

        return {}

    def warm(self, situation: str) -> dict[str, Any]:
        """Load the model and the table of cells, so that the first question for reasons need not wait for that."""
        found, info = self._store.situation(situation), self._store.version(situation)
        if info is not None:
            self._cells.load(found, info)
            self._explained(found, info, found.grid.size // 2, 0, None, exact=True)
        return {}

    def _at_sea(self, situation: Situation, info: VersionInfo, cell: int) -> bool | None:
        """Whether a cell is at sea, for maps of the land; None for other maps, and without outlines. Only the outlines
        of countries decide: it must not show which cells at sea have reports."""
        if not info.info.get("land"):
            return None
        from crowdfield.io.land import at_sea

        return at_sea(*geography.unproject(situation.grid.centres()[[cell]], situation.crs)[0].tolist())

    def moderation(self, situation: str, version: int, head: int, target: str) -> dict[str, Any]:
        """The reports to review: those that are improbable given all others, and those already accepted or
        retracted."""
        found, info = self._version(situation, version)
        moderated = self._lists.moderation(found, info)
        body = {
            "version": version,
            "judged": self._model(found, version) is not None,
            "doubtful": [{"id": name, "probability": p} for name, p in moderated.doubtful.items()],
            "accepted": list(moderated.accepted),
            "retracted": self._lists.retracted(found),
        }
        return _write_files(pack_json(body), Path(target))

    def _report_probabilities(self, situation: Situation, info: VersionInfo) -> dict[str, float]:
        """By id, the probability of each report given all others; empty if the model is no longer stored."""
        model = self._model(situation, info.number)
        if model is None:
            return {}
        from crowdfield.service import reasons

        return reasons.surprises(model, situation, self._store.active_reports(situation.id, upto=info.head))

    def totals(
        self,
        situation: str,
        version: int,
        districts: str | None,
        uploaded: str | None,
        level: float,
        threshold: float,
        form: str,
        exact: bool,
        weights: float | None,
        frame: list[Any] | None,
        target: str,
    ) -> dict[str, Any]:
        """Figures of stored districts, or of those in an uploaded file, as JSON or as a file. `weights`, the time when
        the weights were stored, is only part of the cache key."""
        from crowdfield.service import figures

        found = self._store.situation(situation)
        if uploaded is not None:
            areas = areas_of(json.loads(Path(uploaded).read_text()))
        else:
            areas = self._districts.load(found.id, str(districts))
        now = self._maps.load(found, version, _frame(frame))
        made = self._figures(now, areas, level, threshold, exact)
        if form == "json":
            return _write_files(pack_json(figures.as_json(made, now)), Path(target))
        name = f"{found.id}-{districts or 'districts'}-v{version}.{form}"
        return self._as_file(name, lambda path: figures.write(made, path, found.positive), Path(target))

    def area(
        self,
        situation: str,
        version: int,
        coords: str,
        states: list[str],
        exact: bool,
        weights: float | None,
        frame: list[Any] | None,
        target: str,
    ) -> dict[str, Any]:
        """Figures of one polygon as CoverageJSON."""
        from crowdfield.service import figures

        found = self._store.situation(situation)
        areas = figures.polygon_of(coords)
        now = self._maps.load(found, version, _frame(frame))
        made = self._figures(now, areas, AREA_LEVEL, AREA_THRESHOLD, exact)
        body = figures.coverage(made, now.info.created if now.moment is None else now.moment, states)
        return _write_files(pack_json(body, figures.COVERAGE_JSON), Path(target))

    def check_plan(
        self,
        situation: str,
        version: int,
        size: int | None,
        margin: float,
        level: float,
        seed: int,
        form: str,
        target: str,
    ) -> dict[str, Any]:
        """A plan of places to check: a summary as JSON, or its places as a file."""
        from crowdfield.service import spotchecks

        found = self._store.situation(situation)
        now = self._maps.load(found, version)
        plan = spotchecks.draw_plan(now, size=size, margin=margin, level=level, seed=seed)
        if form == "json":
            return _write_files(pack_json(spotchecks.plan_as_json(plan, version)), Path(target))
        return self._as_file(
            f"{found.id}-checks-v{version}-seed{seed}.{form}",
            lambda path: spotchecks.write_plan(plan, path),
            Path(target),
        )

    def check_result(self, situation: str, version: int, level: float, uploaded: str, target: str) -> dict[str, Any]:
        """What the answers to spot checks say about a map."""
        from crowdfield.service import spotchecks

        now = self._maps.load(self._store.situation(situation), version)
        body = spotchecks.result_as_json(now, json.loads(Path(uploaded).read_text()), level)
        return _write_files(pack_json(finite(body)), Path(target))

    def _as_file(self, name: str, write: Callable[[Path], None], target: Path) -> dict[str, Any]:
        """A file that is downloaded under this name."""
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            path = Path(folder) / name
            write(path)
            path, media, headers = exports.bundle(path, target)
        return _describe_files(pack_files(path, media, headers))

    def _figures(self, now: MapArrays, areas: Any, level: float, threshold: float, exact: bool) -> Any:
        """Figures of districts on a version, computed from its model."""
        from crowdfield.pipeline.totals import TotalsOptions
        from crowdfield.service import figures

        situation = now.situation
        model = self._model(situation, now.info.number)
        if model is None:
            raise Problem(404, "figures of districts exist only for the newest version of a map with reports")
        model = moments.at_moment(model, now.info.info, now.moment)
        counts = now.reports if exact else self._cells.load(situation, now.info).counts(situation.grid)
        weights, stored = self._weights.load(situation), self._weights.find(situation.id)
        made = figures.figures(model, now, areas, counts, TotalsOptions(level, (threshold,)), weights, exact=exact)
        if stored is not None and not stored.fits(situation):
            made = replace(made, notes=(*made.notes, stored.outdated))
        return made

    def tile(
        self,
        situation: str,
        version: int,
        layer: tiles.Layer,
        z: int,
        x: int,
        y: int,
        state: int,
        base: int | None,
        scale: tiles.Scale,
        layout: str,
        frame: list[Any] | None,
    ) -> dict[str, Any]:
        """A tile of a version. The layer `difference` shows the change since version `base`, or the previous version.
        `layout`: the layout that the map had when the server decided that the caller may see it."""
        found = self._store.situation(situation)
        if found.layout_tag != layout:
            raise Unknown(JUST_CHANGED)
        now, before = self._maps.load(found, version, _frame(frame)), None
        if layer == "difference":
            earlier = base if base is not None else version - 1
            before = self._maps.load(found, earlier) if earlier >= 1 else None
        return _image(tiles.render(layer, z, x, y, now, state, before, scale))

    def legend(self, layer: tiles.LegendKind, scale: tiles.Scale = "plain") -> dict[str, Any]:
        return _image(tiles.legend(layer, scale))

    def basemap(self, region: list[float], landmarks: bool, target: str) -> dict[str, Any]:
        """The ground around a region."""
        found = basemap.ground(Region(*region), landmarks=landmarks)
        return _write_files(pack_json(found, GEOJSON, level=BEST), Path(target))

    def _version(self, situation: str, version: int) -> tuple[Situation, VersionInfo]:
        info = self._store.version(situation, version)
        if info is None:
            raise Problem(404, f"there is no version {version} of this map")
        return self._store.situation(situation), info

    def _explained(
        self, situation: Situation, info: VersionInfo, cell: int, state: int, moment: float | None, exact: bool
    ) -> dict[str, Any] | None:
        """Reasons as the caller may see them, or None for a version whose model is no longer stored."""
        model = self._model(situation, info.number)
        if model is None:
            return None
        from crowdfield.service import reasons

        shows_reports = info.info.get(SHOWS_REPORTS, False)
        place = reasons.place_of(model, situation, cell) if shows_reports else situation.grid.centres()[cell]
        shown = moments.at_moment(model, info.info, moment)
        why = reasons.explain(shown, situation, place, state)
        if why is None:
            return None
        return reasons.named_reasons(why, model) if exact else grouped(why, self._minimum)

    def _model(self, situation: Situation, version: int) -> Any:
        """The model of a version, or None if it is no longer stored: only that of the newest version is."""
        key = (situation.id, situation.created, version)
        held = self._models.cached(key)
        if held is None and self._store.model_version(situation.id) != version:
            return None
        from crowdfield.service import fit  # imported here: it takes seconds, and most questions need no model

        if held is None:
            stored = self._store.model(situation.id)
            if stored is None or stored[0] != version or not stored[2]:
                return None
            try:
                held = self._models.get(key, lambda: fit.load_model(stored[2]))
            except InputError:
                log.exception("a saved model is damaged", extra={"situation": situation.id})
                return None  # there are no reasons until the next fit
        return held


def grouped(why: "Explained", minimum: Minimum) -> dict[str, Any]:
    """Reasons as readers may see them, in rounded parts whose sum is the total."""
    groups = grouped_reasons([Share(source, log_odds) for source, log_odds in why.shares()], minimum)
    prior, doubt = coarse(why.prior), coarse(why.uncertainty)
    total = prior + doubt + sum(group["log_odds"] for group in groups)
    return {
        "total": round(total, 6) if groups else coarse(why.total),
        "prior": prior,
        "uncertainty": doubt,
        "groups": groups,
    }


def _frame(given: list[Any] | None) -> Frame | None:
    return None if given is None else Frame(*given)


def _write_files(packed: Packed, target: Path) -> dict[str, Any]:
    assert isinstance(packed.plain, bytes)
    target.write_bytes(packed.plain)
    beside = target.with_suffix(".gz")
    if isinstance(packed.packed, bytes):
        beside.write_bytes(packed.packed)
    return _describe_files(Packed(packed.media, packed.tag, target, beside if packed.packed else None))


def _image(image: bytes) -> dict[str, Any]:
    return {"image": base64.b64encode(image).decode()}


def _describe_files(packed: Packed) -> dict[str, Any]:
    return {
        "media": packed.media,
        "tag": packed.tag,
        "plain": str(packed.plain),
        "packed": str(packed.packed) if packed.packed else None,
        "headers": packed.headers,
    }
