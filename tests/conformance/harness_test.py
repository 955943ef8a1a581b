"""What the harness must not let pass: each test hands it a wrong result that looks right from some side.

  python -m unittest harness_test
"""

import unittest

import torch
from torch import nn

import oracle
import verdict
from case import Case, Excused, normal
from made import Made
from twins import weak_twin

KERNELS = [("aten::quantize_per_tensor", 0.1, 0), ("quantized::linear", 0.1, 0), ("quantized::linear", 0.1, 0)]


def case(**options) -> Case:
    return Case("harness", lambda: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), (normal(4, 8),), **options)


def outputs(noise: float = 0.0, second_batch: float = 0.0, second_output: float = 0.0) -> list:
    """Two batches of two outputs, the second a hundredth of the first, each with noise relative to its size."""
    torch.manual_seed(0)
    result = []
    for of_batch in (noise, max(noise, second_batch)):
        values = [torch.randn(4, 8), torch.randn(4, 8) / 100]
        result.append([value * (1 + torch.where(value > 0, 1.0, -1.0) * of) for value, of in zip(values, (of_batch, max(of_batch, second_output)))])
    return result


def made(operators=KERNELS, refusal: str = "", **noise) -> Made:
    result = Made()
    result.refusal, result.operators = refusal, list(operators)
    result.reference, result.lowered = outputs(**noise), outputs(**noise)
    return result


def expectation(**fx) -> oracle.Expectation:
    errors = {} if fx else {"prepare": "TraceError"}
    return oracle.Expectation(outputs(), oracle.FxResult(**fx, errors=errors), None)


def verdict_of(made_first: Made, made_again: Made = None, expected: oracle.Expectation = None, **options) -> str:
    return verdict.judge(case(**options), "x86", expected or expectation(), made_first, lambda: made_again or made())[0]


class NearFloat(unittest.TestCase):
    def test_a_rounding_of_the_float_outputs_passes(self):
        self.assertEqual(verdict_of(made(noise=0.01), made(noise=0.01)), verdict.BETTER)

    def test_a_large_output_does_not_hide_a_small_one(self):
        self.assertEqual(verdict_of(made(second_output=0.5)), verdict.FAILED)

    def test_the_second_batch_counts(self):
        self.assertEqual(verdict_of(made(second_batch=0.3), made(second_batch=0.3)), verdict.FAILED)

    def test_the_second_batch_may_be_cut_off_by_data_that_did_not_have_its_range(self):
        self.assertEqual(verdict_of(made(second_batch=0.3), made()), verdict.BETTER)

    def test_both_models_cut_it_off_alike(self):
        first = made()
        first.lowered = outputs(second_batch=0.3)
        self.assertEqual(verdict_of(first), verdict.FAILED)

    def test_a_case_may_ask_for_less(self):
        poor = made(noise=0.1)
        self.assertEqual(verdict_of(poor, poor), verdict.FAILED)
        self.assertEqual(verdict_of(poor, poor, min_sqnr=Excused(18, "for the test")), verdict.BETTER)

    def test_a_case_does_not_ask_for_less_without_a_reason(self):
        with self.assertRaises(ValueError):
            case(min_sqnr=18.0)

    def test_a_float_model_does_not_pass(self):
        self.assertEqual(verdict_of(made(operators=[])), verdict.FAILED)
        self.assertEqual(verdict_of(made(operators=KERNELS[:2])), verdict.FAILED)
        self.assertEqual(verdict_of(made(operators=KERNELS[:2]), float_layers=Excused(1, "for the test")), verdict.BETTER)

    def test_values_that_are_not_finite_do_not_pass(self):
        broken = made()
        broken.lowered[0][0][0, 0] = float("nan")
        self.assertEqual(verdict_of(broken), verdict.FAILED)

    def test_another_shape_does_not_pass(self):
        broken = made()
        broken.lowered[0][0] = broken.lowered[0][0].reshape(-1)
        self.assertEqual(verdict_of(broken), verdict.FAILED)


class BesideOneSideOfFx(unittest.TestCase):
    """FX's reference model is right, its lowered one is not."""

    def verdict_of(self, lowered: list, operators=KERNELS) -> str:
        first = made(operators=operators)
        first.lowered = lowered
        expected = expectation(reference=outputs(), lowered=outputs(noise=5.0), operators=[])
        return verdict_of(first, expected=expected, lowered_difference="wrong in FX")

    def test_the_other_side_is_near_the_right_one(self):
        self.assertEqual(self.verdict_of(outputs(noise=0.01)), verdict.BETTER)

    def test_on_both_batches(self):
        self.assertEqual(self.verdict_of(outputs(second_batch=0.3)), verdict.FAILED)

    def test_and_in_int8(self):
        self.assertEqual(self.verdict_of(outputs(), operators=[]), verdict.FAILED)

    def test_the_right_side_is_equal(self):
        expected = expectation(reference=outputs(noise=0.001), lowered=outputs(), operators=[])
        self.assertEqual(verdict_of(made(), expected=expected, lowered_difference="wrong in FX"), verdict.FAILED)


class Refusals(unittest.TestCase):
    SENTENCE = "tsq: error: the range [5, 80] does not include 0"

    def test_the_expected_sentence_passes(self):
        self.assertEqual(verdict_of(made(refusal=self.SENTENCE), refusal="does not include 0"), verdict.REFUSED)

    def test_another_one_does_not(self):
        self.assertEqual(verdict_of(made(refusal=self.SENTENCE)), verdict.FAILED)
        self.assertEqual(verdict_of(made(refusal="tsq: error: out of memory"), refusal="does not include 0"), verdict.FAILED)

    def test_nor_does_a_model_where_a_refusal_is_expected(self):
        self.assertEqual(verdict_of(made(), refusal="does not include 0"), verdict.FAILED)

    def test_nor_a_refusal_of_what_fx_can_do(self):
        expected = expectation(reference=outputs(), lowered=outputs(), operators=[])
        self.assertEqual(verdict_of(made(refusal=self.SENTENCE), expected=expected, refusal="does not include 0"), verdict.FAILED)


class Twins(unittest.TestCase):
    def weak(self, twin: list, reached: float = 0.01) -> str:
        return weak_twin(case(), "x86", (outputs(), outputs(noise=reached)), (outputs(), twin))

    def test_an_excused_twin_is_near_its_float_file(self):
        self.assertEqual(self.weak(outputs(noise=0.05)), "")
        self.assertIn("output 0 of batch 0", self.weak(outputs(noise=0.5)))

    def test_it_need_not_be_better_than_the_scripted_file(self):
        self.assertEqual(self.weak(outputs(noise=0.5), reached=0.4), "")

    def test_it_has_the_shape_of_its_float_file_on_every_batch(self):
        twin = outputs(noise=0.01)
        twin[1][1] = twin[1][1][:1]
        self.assertIn("output 1 of batch 1", self.weak(twin))


if __name__ == "__main__":
    unittest.main()
