"""Any text is taken, and a kernel is the same in all the forms in which its name comes."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pellucid.catalog.kernels.names_of import categories
from pellucid.trace.classify import CONFIDENCE, UNKNOWN, classify
from pellucid.trace.classify.demangle import demangle
from pellucid.trace.classify.parts import split
from pellucid.trace.classify.spelling import head_words
from tests.trace.kernel_corpus import Known, corpus

PIECES = st.sampled_from([
    "void ", "<", ">", "(", ")", "::", "_Z", "N", "E", "I", "L", "J", "X", "S_", "T_", "DF16b", "DF", "9999", "4vllm",
    "15rms_norm_kernel", "_GLOBAL__N_1", "operator()", "->", "{lambda()#1}", "...", "triton_", "\0",
])  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(PIECES).map("".join))
# Mangled and what c++filt of binutils 2.38 or later prints for it.
TWINS = [
    ("_ZN4vllm15rms_norm_kernelIN3c108BFloat16ELi8EEEvPT_PKS2_lS5_fii",
     "void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16 const*, long, c10::BFloat16 const*, "
     "float, int, int)"),
    ("_Z9mul_mat_qIL9ggml_type12ELi64ELi8ELb1EEvPKcS2_PfPKiS5_iiiii",
     "void mul_mat_q<(ggml_type)12, 64, 8, true>(char const*, char const*, float*, int const*, int const*, int, int, "
     "int, int, int)"),
    ("_ZN9deep_gemm9gemm_implILN4cute4GMMA5MajorE0ELj0ELNS_8GemmTypeE1EEEvPf",
     "void deep_gemm::gemm_impl<(cute::GMMA::Major)0, 0u, (deep_gemm::GemmType)1>(float*)"),
    ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_",
     "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int, "
     "at::native::FillFunctor<float>)"),
    ("_ZN5flash24flash_fwd_splitkv_kernelI6TraitsLb1EEEvT_",
     "void flash::flash_fwd_splitkv_kernel<Traits, true>(Traits)"),
    ("_ZN12_GLOBAL__N_120softmax_warp_forwardIfffLi8EEEvPT_",
     "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8>(float*)"),
]  # fmt: skip


@pytest.mark.slow
@given(TEXTS, st.one_of(st.none(), st.text()))
@example("", "")
@example("<" * 3000, "::")
@example("_ZN" + "9" * 400, None)
@example("_ZN3abcI" * 400, None)
@settings(max_examples=400, deadline=None)
def test_any_text_has_an_answer(name: str, op: str | None) -> None:
    label = classify(name, op)
    assert label.category in {*categories(), UNKNOWN}
    assert label.confidence == CONFIDENCE[label.told]


@pytest.mark.parametrize("piece", ["<", "a", "A", "_", "(", "_ZN1aI", "rms_norm_", "silu ", "::", "\n", "é"])
def test_a_name_of_a_megabyte_is_answered(piece: str) -> None:
    assert classify(piece * (1_000_000 // len(piece))).category in {*categories(), UNKNOWN}


@given(st.sampled_from(corpus()), st.integers(0, 400))
@settings(max_examples=200, deadline=None)
def test_a_name_that_is_cut_off_has_an_answer(known: Known, length: int) -> None:
    assert classify(known.name[:length] + "...").category in {*categories(), UNKNOWN}


@pytest.mark.parametrize(("mangled", "plain"), TWINS)
def test_a_mangled_name_is_told_as_its_demangled_form(mangled: str, plain: str) -> None:
    one, other = classify(mangled), classify(plain)
    assert one.category != UNKNOWN
    assert (one.category, one.detail, one.phase, one.library) == (
        other.category, other.detail, other.phase, other.library)  # fmt: skip


def test_a_mangled_name_is_read_as_far_as_words_go() -> None:
    assert demangle("_ZN3one3two4kernIN3c108BFloat16ELi8ELb1EEEvPT_") == "one::two::kern<c10 BFloat16 (int)8 (bool)1>"
    assert demangle("_ZN3one3two12kern_cut_o") == "one::two::kern_cut_o"
    assert demangle("_Zebra") == "_Zebra"
    assert demangle("kernel") == "kernel"


@pytest.mark.parametrize(
    ("name", "head", "arguments"),
    [("void a::b<1, c<2> >(d<3>)", "a::b", "1, c<2> "), ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD", ""),
     ("void (anonymous namespace)::b<1>(int)", "::b", "anonymous namespace, 1"),
     ("std::enable_if<x, void>::type a::b<y>(z)", "a::b", "x, void, y"), ("void a::b<c<d...", "a::b", "c<d..."),
     ("a::b.kd", "a::b", ""), ("void a::b<c>::d(int)", "a::b::d", "c"), ("void a() [clone .kd]", "a", "")],
)  # fmt: skip
def test_the_functions_own_name_stands_outside_brackets(name: str, head: str, arguments: str) -> None:
    parts = split(name)
    assert (parts.head, parts.arguments) == (head, arguments)


@pytest.mark.parametrize(
    ("head", "words"),
    [("vllm::act_and_mul_kernel", " vllm ^ act and mul kernel $ "), ("RMSNormKernel", " ^ rms norm kernel $ "),
     ("BatchDecodeWithPagedKVCache", " ^ batch decode with paged kv cache $ "), ("mRoPE_MoE", " ^ rope moe $ "),
     ("sm90_fp8", " ^ sm 90 fp 8 $ ")],
)  # fmt: skip
def test_words_are_cut_where_spelling_turns(head: str, words: str) -> None:
    assert head_words(head) == words
