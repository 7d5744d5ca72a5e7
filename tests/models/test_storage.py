"""One file per model: what is read back predicts and updates as the saved one, and nothing in the file can run."""

import io
import json
import zipfile

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import InputError
from crowdfield.inference.kernels import space_time
from crowdfield.models import comparison

GRID = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), -1).reshape(-1, 2)


def crowd(seed=0, reports=200, columns=2):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, (reports, columns)).astype(float)
    s = rng.integers(0, 5, reports)
    y = np.where(rng.random(reports) < np.where(s < 4, 0.9, 0.5), X[:, 0] >= 4, X[:, 0] < 4).astype(int)
    return X, y, s


SETTINGS = {
    "default": dict(lengthscale=3.0),
    "variational": dict(lengthscale=3.0, inference="vb"),
    "lattice": dict(lengthscale=3.0, engine="spectral"),
    "learned": dict(lengthscale="learn", random_state=0),
    "by column": dict(lengthscale=[3.0, 5.0], kernel="rbf"),
    "communities": dict(lengthscale=3.0, communities=2),
    "priors": dict(
        lengthscale=3.0,
        prior_mean=[0.0, -1.0],
        confusion_prior={0: np.diag([90.0, 90.0]) + 1.0, None: [[3, 1], [1, 3]]},
    ),
}
each = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)


@each
def test_a_loaded_model_predicts_and_updates_like_the_saved_one(settings, tmp_path):
    X, y, s = crowd()
    # The last reports are too few for another comparison of the two models, which takes longer than all else here.
    first = int(len(y) / comparison.GROWTH_BEFORE_COMPARING_AGAIN) + 10
    model = cf.HeatmapBCC(**settings).fit(X[:first], y[:first], s[:first], gold=([[20.0, 20.0]], [1]))
    model.save(tmp_path / "model.crowdfield")
    again = cf.HeatmapBCC.load(tmp_path / "model.crowdfield")
    np.testing.assert_allclose(again.predict_proba(GRID), model.predict_proba(GRID), atol=1e-9)
    np.testing.assert_allclose(again.predict_rate(GRID + 0.3), model.predict_rate(GRID + 0.3), atol=1e-9)
    np.testing.assert_allclose(again.confusion_, model.confusion_, atol=1e-9)
    assert again.predict_proba([[20.0, 20.0]])[0, 1] == 1.0
    for name in ("bound_", "n_iter_", "converged_", "engine_", "inference_"):
        assert getattr(again, name) == getattr(model, name), name
    assert again.source_table().equals(model.source_table())
    np.testing.assert_allclose(
        again.explain([1.0, 1.0]).log_odds.sum(), model.explain([1.0, 1.0]).log_odds.sum(), atol=1e-9
    )
    for m in (model, again):
        m.partial_fit(X[first:], y[first:], s[first:])
    np.testing.assert_allclose(again.predict_proba(GRID), model.predict_proba(GRID), atol=2e-3)


def test_space_and_time_keep_their_own_scales(tmp_path):
    X, y, s = crowd(columns=3)
    model = cf.HeatmapBCC(kernel=space_time("matern32", 4.0, "matern12", 9.0)).fit(X, y, s)
    model.save(tmp_path / "m")
    again = cf.HeatmapBCC.load(tmp_path / "m")
    np.testing.assert_array_equal(again.lengthscale_, [4.0, 4.0, 9.0])
    np.testing.assert_allclose(again.predict_rate(X + 0.3), model.predict_rate(X + 0.3), atol=1e-9)


def test_names_stay_what_they_are(tmp_path):
    X, y, s = crowd()
    model = cf.HeatmapBCC(lengthscale=3.0).fit(X, np.array(["sec", "inondé"])[y], np.array(list("αβγδε"))[s])
    model.save(tmp_path / "m")
    again = cf.HeatmapBCC.load(tmp_path / "m")
    assert list(again.classes_) == ["inondé", "sec"] and list(again.sources_seen_) == list("αβγδε")
    numbers = cf.HeatmapBCC(lengthscale=3.0).fit(X, y, s)
    numbers.save(tmp_path / "m")  # over the other
    assert cf.HeatmapBCC.load(tmp_path / "m").classes_.dtype.kind == "i"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]  # nothing half-written is left behind


def test_what_cannot_be_kept_says_so(tmp_path):
    X, y, s = crowd()
    with pytest.raises(InputError, match="prior_mean is a function"):
        cf.HeatmapBCC(lengthscale=3.0, prior_mean=lambda Z: Z[:, 0]).fit(X, y, s).save(tmp_path / "m")
    strange = np.empty(len(s), dtype=object)
    strange[:] = [(int(i), "x") for i in s]
    with pytest.raises(InputError, match="strings or numbers"):
        cf.HeatmapBCC(lengthscale=3.0).fit(X, y, strange).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def damaged(path, change):
    """The file with one member changed."""
    with zipfile.ZipFile(path) as box:
        members = {name: box.read(name) for name in box.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as box:
        for name, content in members.items():
            box.writestr(name, content)


def _header(**changes):
    def change(members):
        members["header.json"] = json.dumps(json.loads(members["header.json"]) | changes).encode()

    return change


def _pickled(members):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    members["rows_logits.npy"] = buffer.getvalue()


DAMAGE = {
    "another format": (_header(format="something"), "not a crowdfield model"),
    "from the future": (_header(version=99), "newer"),
    "no header": (lambda m: m.pop("header.json"), "damaged"),
    "no places": (lambda m: m.pop("places.npy"), "damaged"),
    "no sources": (lambda m: m.pop("rows_logits.npy"), "damaged"),
    "torn array": (lambda m: m.update({"places.npy": m["places.npy"][:40]}), "damaged"),
    "a pickle": (_pickled, "damaged"),
    "no JSON": (lambda m: m.update({"header.json": b"{"}), "damaged"),
    "an unknown setting": (_header(settings={"colour": 1}), "damaged"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_is_named(case, tmp_path):
    X, y, s = crowd(reports=30)
    path = tmp_path / "model.crowdfield"
    cf.HeatmapBCC(lengthscale=3.0, reports_model="one_state").fit(X, y, s).save(path)
    change, message = DAMAGE[case]
    damaged(path, change)
    with pytest.raises(InputError, match=message):
        cf.HeatmapBCC.load(path)


def test_a_file_that_is_not_a_zip_is_refused(tmp_path):
    (tmp_path / "m").write_text("hello")
    with pytest.raises(InputError, match="not a crowdfield model"):
        cf.HeatmapBCC.load(tmp_path / "m")


def test_a_file_of_an_earlier_version_is_fitted_again(tmp_path):
    """Before version 3 a file held the state of another method. Its reports are there: the map is made from them."""
    X, y, s = crowd(reports=60)
    path = tmp_path / "model.crowdfield"
    model = cf.HeatmapBCC(lengthscale=3.0, reports_model="one_state").fit(X, y, s)
    model.save(path)

    def earlier(members):
        for name in [n for n in members if n.startswith("rows_")]:
            members.pop(name)
        _header(version=1)(members)

    damaged(path, earlier)
    read = cf.HeatmapBCC.load(path)
    np.testing.assert_allclose(read.predict_proba(X), model.predict_proba(X), atol=1e-9)
