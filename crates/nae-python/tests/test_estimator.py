"""scikit-learn's own checks, and what PyOD's detectors have."""

import pickle

import numpy as np
import pytest
from nae_edge import NormalizedAutoencoderDetector
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

# As little training as scikit-learn's checks take: they are about manners.
QUICK = {"pretraining_updates": 10, "updates": 1, "random_state": 0}

# Checks that fail, and why. None does here; trained to the end with contamination="auto", no sample of the training data of
# check_outliers_train and check_outliers_fit_predict lies above the calibrated threshold, and they want one.
EXPECTED_FAILURES: dict[str, str] = {}

pytestmark = pytest.mark.filterwarnings("ignore:.*samples are too few:UserWarning")


@parametrize_with_checks(
    [NormalizedAutoencoderDetector(**QUICK)], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_manners(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(readings):
    return NormalizedAutoencoderDetector(pretraining_updates=500, updates=20, random_state=1).fit(readings)


def test_signs_and_thresholds(fitted, readings):
    scores = fitted.score_samples(readings)
    np.testing.assert_allclose(fitted.decision_function(readings), scores - fitted.offset_)
    np.testing.assert_array_equal(fitted.predict(readings), np.where(scores < fitted.offset_, -1, 1))
    assert fitted.offset_ == -fitted.detector_.threshold
    # The normal that the threshold was calibrated on are few above it, what does not hang together more.
    assert (fitted.predict(readings) == -1).mean() < 0.2
    odd = np.stack([np.random.default_rng(7).permutation(column) for column in readings.T], axis=1)
    odd[:, 2] += 4
    assert roc_auc_score(np.r_[np.zeros(300), np.ones(300)], -fitted.score_samples(np.r_[readings, odd])) > 0.8


def test_what_pyods_detectors_have(fitted, readings):
    # The assertions of PyOD's tests of its detectors, on attributes that its base class documents.
    for attribute in ("decision_scores_", "labels_", "threshold_"):
        assert getattr(fitted, attribute) is not None
    assert fitted.decision_scores_.shape == fitted.labels_.shape == (300,)
    np.testing.assert_array_equal(fitted.decision_scores_, -fitted.score_samples(readings))
    assert set(fitted.labels_) == {0, 1}
    np.testing.assert_array_equal(fitted.labels_, (fitted.predict(readings) == -1).astype(int))
    np.testing.assert_array_equal(fitted.labels_, (fitted.decision_scores_ > fitted.threshold_).astype(int))
    by_share = clone(fitted).set_params(contamination=0.1, **QUICK).fit(readings)
    assert by_share.labels_.sum() == 30
    np.testing.assert_array_equal(by_share.fit_predict(readings) == -1, by_share.labels_ == 1)
    # The exported detector's verdicts are those of `predict`, here and pickled; a file has the calibrated threshold.
    by_share.fit(readings)
    for detector in (by_share.detector_, pickle.loads(pickle.dumps(by_share)).detector_):
        np.testing.assert_array_equal(detector.score(readings).verdicts, by_share.predict(readings) == -1)
    assert by_share.detector_.threshold == pytest.approx(by_share.threshold_)


def test_pyods_base_class_computes_the_same_labels(fitted):
    from pyod.models.base import BaseDetector

    class Wrapped(BaseDetector):
        def __init__(self, contamination):
            super().__init__(contamination=contamination)

        def fit(self, X, y=None):
            return self

        def decision_function(self, X):
            return X[:, 0]

    for contamination in (0.05, 0.2):
        theirs = Wrapped(contamination=contamination)
        theirs.decision_scores_ = fitted.decision_scores_
        theirs._process_decision_scores()
        ours = np.percentile(fitted.decision_scores_, 100 * (1 - contamination))
        assert theirs.threshold_ == pytest.approx(ours)
        np.testing.assert_array_equal(theirs.labels_, (fitted.decision_scores_ > ours).astype(int))


def test_pickled_through_the_model_file(fitted, readings):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.score_samples(readings), fitted.score_samples(readings))
    assert again.offset_ == fitted.offset_ and again.get_params() == fitted.get_params()
    assert fitted.detector_.to_bytes() in pickle.dumps(fitted)


def test_a_grid_search_and_a_seed(readings):
    detector = NormalizedAutoencoderDetector(**QUICK)
    search = GridSearchCV(
        detector, {"pretraining_updates": [5, 10]}, scoring=lambda model, X, y=None: model.score_samples(X).mean(), cv=2
    )
    search.fit(readings)
    assert search.best_params_["pretraining_updates"] in (5, 10)
    first, second = clone(detector).fit(readings), clone(detector).fit(readings)
    assert first.detector_.to_bytes() == second.detector_.to_bytes()


def test_images_have_the_same_manners(digits):
    images = digits[0][:150]
    detector = NormalizedAutoencoderDetector(**QUICK).fit(images)
    assert detector.image_shape_ == (8, 8) and detector.n_features_in_ == 64
    assert detector.predict(images[:7]).shape == (7,)
    assert NormalizedAutoencoderDetector(**QUICK).fit(images[..., None]).image_shape_ == (8, 8, 1)
    with pytest.raises(ValueError, match=r"expected images of shape \(8, 8\) each, found \(8, 7\)"):
        detector.predict(images[:, :, :7])
    with pytest.raises(ValueError, match="found a table"):
        detector.predict(images[0])
    # Three axes are grey images, however narrow they are.
    for width in (1, 3, 4):
        narrow = np.ascontiguousarray(images[:60, :, :width])
        fitted = NormalizedAutoencoderDetector(**QUICK).fit(narrow)
        assert fitted.image_shape_ == (8, width) and fitted.predict(narrow[:3]).shape == (3,)
    with pytest.raises(ValueError, match="expected at least one image, found none"):
        detector.fit(images[:0])


def test_what_a_mask_hides_is_not_scored(fitted, readings):
    masked = np.ma.masked_array(readings[:5], mask=np.eye(5, 4) > 0)
    with pytest.raises(ValueError, match="NaN"):
        fitted.predict(masked)


def test_few_samples_are_said_to_be_few(readings):
    with pytest.warns(UserWarning, match="20 samples are too few .* repeated 3 times"):
        NormalizedAutoencoderDetector(**QUICK).fit(readings[:20])


def test_columns_of_a_frame_keep_their_names_and_what_is_left_out_is_said(readings):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(readings, columns=["a", "b", "c", "d"]).assign(fixed=7.0)
    with pytest.warns(UserWarning, match="columns left out: fixed"):
        fitted = NormalizedAutoencoderDetector(**QUICK).fit(frame)
    assert any("fixed" in warning for warning in fitted.warnings_)
    energies = fitted.detector_.score(frame).energies
    np.testing.assert_allclose(-fitted.score_samples(frame), energies, rtol=1e-6)


def test_whole_numbers_as_labels_are_the_columns_of_the_detector(readings):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(readings)
    for labels in ([0, 1, 2, 3], [1, 0, 2, 3], [3, 7, 1, 0]):
        permuted = frame.set_axis(labels, axis=1)
        fitted = NormalizedAutoencoderDetector(**QUICK).fit(permuted)
        energies = fitted.detector_.score(permuted).energies
        assert len(np.unique(energies)) > 200
        np.testing.assert_allclose(-fitted.score_samples(permuted), energies, rtol=1e-6)
        np.testing.assert_array_equal(fitted.decision_scores_, -fitted.score_samples(permuted))
        # By their labels in any order, and an array by the order of `fit`.
        other = permuted[labels[::-1]]
        np.testing.assert_array_equal(fitted.score_samples(other), fitted.score_samples(permuted))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).score_samples(other), fitted.score_samples(permuted))
        np.testing.assert_array_equal(fitted.score_samples(readings), fitted.score_samples(permuted))
    # Of an array, the columns are those of a frame that is numbered from 0.
    fitted = NormalizedAutoencoderDetector(**QUICK).fit(readings)
    np.testing.assert_array_equal(fitted.score_samples(frame[[2, 1, 0, 3]]), fitted.score_samples(readings))
    with pytest.raises(ValueError, match=r"X: expected the columns \[0, 1, 2, 3\], .*found \[0, 1, 2, 4\]"):
        fitted.predict(frame.set_axis([0, 1, 2, 4], axis=1))
    # The labels of one fit are not those of the next.
    fitted.fit(frame[[3, 2, 1, 0]]).fit(readings)
    np.testing.assert_array_equal(fitted.score_samples(frame[[2, 1, 0, 3]]), fitted.score_samples(readings))


def test_a_refit_on_images_forgets_the_table(digits, readings):
    pandas = pytest.importorskip("pandas")
    detector = NormalizedAutoencoderDetector(**QUICK).fit(pandas.DataFrame(readings, columns=["a", "b", "c", "d"]))
    assert list(detector.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match=r"expected a table \[samples, columns\], found images"):
        detector.predict(digits[0][:3])
    detector.fit(digits[0][:60])
    assert not hasattr(detector, "feature_names_in_") and detector.n_features_in_ == 64
