from __future__ import annotations

import pytest

from pellucid.catalog.kernels.names_of import categories
from pellucid.trace.classify import UNKNOWN, classify
from tests.trace.kernel_corpus import Known, corpus

STRICT_RATIO = 0.95
WRONG_RATIO = 0.01
DEEP_GEMM = "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, (deep_gemm::GemmType){}, false>(float*)"


def is_right(known: Known, category: str) -> bool:
    return category in (known.category, *known.also) or (known.ambiguous and category == UNKNOWN)


def test_the_corpus_is_told_right() -> None:
    told = [(known, classify(known.name).category) for known in corpus()]
    strict = sum(known.category == category for known, category in told)
    wrong = [(k.category, c, k.name[:80]) for k, c in told if c != UNKNOWN and not is_right(k, c)]
    assert strict >= STRICT_RATIO * len(told)
    assert len(wrong) <= WRONG_RATIO * len(told), wrong


@pytest.mark.parametrize(
    ("name", "category"),
    [("kernel_cutlass_kernel_flashinfernormkernelsrmsnormRMSNormKernel_object_at__tensorptrbf16", "norm"),
     ("kernel_cutlass_kernel_flash_attncuteflash_fwdFlashAttentionForwardSm100_object_at__tensor", "attention"),
     ("kernel_cutlass_kernel_flashinfergemmkernelsdense_blockscaled_gemm_sm100Sm100BlockScaled_0", "gemm"),
     ("kernel_cutlass_kernel_flashinferquantizationkernelsnvfp4_quantizeNVFP4QuantizeSwizzledKernel_", "quant"),
     ("_gemma_fused_add_rmsnorm_kernel", "norm"), ("_gemm_a8w8_kernel", "gemm"),
     ("bmm_E4m3_E4m3E4m3_Fp32_t128x8x128u2_s6_et64x8_m64x8x32_cga1x1x1_dynB_sm100f", "moe_gemm"),
     ("bmm_kernel", "gemm"),
     ("fmhaSm100aKernel_QkvE4m3OBfloat16H128PagedKvCausalVarSeqQ128Kv128PersistentContext", "attention"),
     ("allreduce_fusion_kernel_oneshot_lamport", "comm"), ("void flashinfer::norm::RMSNormKernel<8u>", "norm"),
     ("void flashinfer::sampling::TopPSamplingFromProbKernel<1024u, float>(float*)", "sampling"),
     ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<2u>(T9)", "attention"),
     ("_chunk_scan_fwd_kernel", "ssm_linear_attn"), ("_fwd_kernel", "attention"),
     ("void marlin::gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*)", "other"),
     ("void marlin::Marlin<1l, 2l, 256, 4>(int4 const*)", "gemm"), ("void marlin_moe_wna16::Marlin<1l>()", "moe_gemm"),
     (DEEP_GEMM.format(0), "gemm"), (DEEP_GEMM.format(1), "moe_gemm"), (DEEP_GEMM.format(2), "moe_gemm"),
     ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int)", "memset"),
     ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)", "elementwise"),
     ("void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(...)>", "copy"),
     ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int>", "gemm"),
     ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<", "moe_gemm"),
     ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::Coll...", "attention"),
     ("void vllm::silu_and_mul_quant_kernel<c10::Half>()", "activation"),
     ("void vllm::rms_norm_static_fp8_quant_kernel<c10::Half>()", "norm"),
     ("triton_poi_fused_silu_mul_1", "inductor_fused"), ("triton_tem_fused_mm_1", "gemm"),
     ("kernel", UNKNOWN), ("my_kernel_0d1d2d", UNKNOWN), ("fusion_12", UNKNOWN), ("", UNKNOWN)],
)  # fmt: skip
def test_a_trap_is_told_right(name: str, category: str) -> None:
    assert classify(name).category == category


@pytest.mark.parametrize(
    ("name", "phase"),
    [("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(P)", "decode"), ("flash_fwd_kernel", ""),
     ("fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP32VarSeqQ128Kv128PersistentContext", "prefill"),
     ("fmhaSm100fKernel_QkvBfloat16OBfloat16H64PagedKvCausalP64VarSeqQ8Kv128StaticSwapsAbForGen", "decode"),
     (DEEP_GEMM.format(1), "prefill"), (DEEP_GEMM.format(2), "decode"), (DEEP_GEMM.format(0), ""),
     ("BatchPrefillWithPagedKVCacheKernel", "prefill"), ("void decode_with_accessor_kernel<8>()", "")],
)  # fmt: skip
def test_a_phase_is_a_hint_of_the_name(name: str, phase: str) -> None:
    assert classify(name).phase == phase


@pytest.mark.parametrize(
    ("name", "precision", "library"),
    [("nvjet_tst_128x8_64x12_2x1_v_bz_TNT", "bf16", "cuBLAS"), ("nvjet_hsh_64x8_v_bz_TNT", "fp16", "cuBLAS"),
     ("ampere_sgemm_128x64_tn", "fp32", "cuBLAS"), ("void vllm::rms_norm_kernel<c10::Half>()", "fp16", "vLLM"),
     ("_per_token_group_quant_fp8", "fp8", ""), ("cvt_fp16_to_fp4", "fp4", ""), ("kernel", None, ""),
     ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "bf16", "NCCL")],
)  # fmt: skip
def test_precision_and_library_are_told_where_the_name_has_them(name: str, precision: str | None, library: str) -> None:
    label = classify(name)
    assert (label.precision, label.library) == (precision, library)


@pytest.mark.parametrize(
    ("name", "op", "category"),
    [("kernel_7", "aten::mm", "gemm"), ("kernel_7", "mm", UNKNOWN), ("kernel_7", "a user's remark: draft", UNKNOWN),
     ("void at::native::elementwise_kernel<128, 4, X>(int)", "aten::copy_", "copy"),
     ("void at::native::elementwise_kernel<128, 4, X>(int)", "vllm::rms_norm", "elementwise"),
     ("void at::native::index_elementwise_kernel<128, 4, X>(int)", "_C_cache_ops::reshape_and_cache_flash", "kv_cache"),
     ("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm>(P)", "vllm::moe_forward", "moe_gemm"),
     ("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm>(P)", "vllm::unified_attention", "gemm"),
     ("nvjet_tst_128x8", "aten::copy_", "gemm"), ("triton_", "vllm::unified_attention", "inductor_fused"),
     ("ncclDevKernel_Generic(x)", "aten::mm", "comm")],
)  # fmt: skip
def test_the_operator_decides_where_the_name_says_little(name: str, op: str, category: str) -> None:
    assert classify(name, op).category == category


def test_the_confidence_of_unknown_is_zero_and_of_nothing_else() -> None:
    labels = [classify(known.name) for known in corpus()]
    assert [label for label in labels if (label.confidence == 0) != (label.category == UNKNOWN)] == []
    assert {label.category for label in labels} <= {*categories(), UNKNOWN}
