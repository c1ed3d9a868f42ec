"""Settings → the engine's own scheduler and KV cache manager, without a model, a device or a tokenizer.

    engine = Engine({"max_model_len": 4096, "max_num_seqs": 256, …})
    engine.add(Asked(0, 0, 500, 40, (), 0, 0), engine.prompts.tokens(…))
    engine.scheduler.schedule()

Layers that see all of the context and layers that see a window have KV blocks of their own, grouped by the engine's own
code as its model's folder lists them; without a folder all see all. Names and parameters are looked up, not taken from
a version: what a setting or the engine lacks is said (CannotServe). A scheduler that runs ahead of the device is not
what this drives.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import os
import tempfile
from typing import Any, Callable, Dict, List, Optional, Tuple

from pellucid_probe.vllm.config import engine_version
from pellucid_probe.vllm.offline.asked import Asked, CannotServe, Prompts

# Of our own, never the engine's arguments: set where the configuration is made already.
CACHE_FIELDS = ("num_gpu_blocks", "block_size")
# The engine looks for memory to plan with, and for files to download; neither is needed here.
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
               "VLLM_LOGGING_LEVEL": "ERROR"}  # fmt: skip
# A model of which the scheduler wants to know that it generates text, and how long its context is.
SMALL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
         "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 256,
         "dtype": "bfloat16"}  # fmt: skip
# What the drive (schedule.py) calls and reads of it.
READ = ("schedule", "update_from_output", "add_request", "finish_requests", "get_request_counts", "running", "waiting",
        "requests", "kv_cache_manager")  # fmt: skip
NOT_KNOWN = "KV blocks are counted as if all layers had full attention, and some layers of this model have not"
KV = "vllm.v1.kv_cache_interface"
AMPLE_BYTES = 1 << 50     # of memory: the number of blocks is told
EXPLAINED = 400       # letters of the engine's own reason that are passed on


class Engine:
    def __init__(self, told: Dict[str, Any]) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.prompts = Prompts()
        self.version = engine_version()
        self.config = self._config(told)
        self.told = {**told, **self._effective(told)}
        self.notes: List[str] = []
        groups = self._groups()
        self.scheduler, hash_tokens = self._scheduler(groups)
        self.hasher = self._hasher(hash_tokens) if self.config.cache_config.enable_prefix_caching else None
        self._request = _called("vllm.v1.request", "Request")
        self._sampling = _called("vllm.sampling_params", "SamplingParams")
        self._output = _called("vllm.v1.outputs", "ModelRunnerOutput")
        self._pool = self.scheduler.kv_cache_manager.block_pool
        self._usable = told["num_gpu_blocks"] - 1       # block 0 stands for no block
        # Of one request; with windows, blocks are given back as it goes on.
        self.usable_tokens = self._usable * told["block_size"] if len(groups) == 1 else None

    def add(self, one: Asked, tokens: List[int]) -> Any:
        """The engine's request, in its waiting queue."""
        sampling = self._sampling(max_tokens=one.output_tokens, ignore_eos=True)
        # Names sort as numbers do: the engine breaks ties by them.
        request = self._request(
            request_id=f"{one.number:012d}", prompt_token_ids=tokens, sampling_params=sampling, pooling_params=None,
            arrival_time=one.arrival_ns / 1e9, block_hasher=self.hasher, priority=one.priority,
        )  # fmt: skip
        self.scheduler.add_request(request)
        return request

    def output(self, names: List[str], sampled: List[List[int]]) -> Any:
        """As if a model had computed a step."""
        places = {name: place for place, name in enumerate(names)}
        return self._output(req_ids=names, req_id_to_index=places, sampled_token_ids=sampled)

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests(name, _imported("vllm.v1.request").RequestStatus.FINISHED_ABORTED)

    def used_blocks(self) -> int:
        used: int = self._usable - self._pool.get_num_free_blocks()
        return used

    def _config(self, told: Dict[str, Any]) -> Any:
        arguments = _imported("vllm.engine.arg_utils").EngineArgs
        asked = {name: value for name, value in told.items() if name not in (*CACHE_FIELDS, "model")}
        fields = {field.name for field in dataclasses.fields(arguments)}
        lacking = sorted(set(asked) - fields)
        if lacking:
            raise CannotServe("version", f"{self.version} has no {', '.join(lacking)}")
        fixed = {"load_format": "dummy", "skip_tokenizer_init": True, "enforce_eager": True, "async_scheduling": False}
        asked.update({name: value for name, value in fixed.items() if name in fields})
        with tempfile.TemporaryDirectory(prefix="pellucid-schedule-") as folder:
            if "model" not in told:
                with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                    json.dump({**SMALL, "max_position_embeddings": told["max_model_len"]}, file)
            try:
                config = arguments(model=told.get("model", folder), **asked).create_engine_config()
            except (ValueError, TypeError, OSError, AssertionError) as error:
                raise CannotServe("asked", f"{self.version} takes no such settings: {_short(error)}") from error
        for name in CACHE_FIELDS:
            setattr(config.cache_config, name, told[name])
        return config

    def _effective(self, told: Dict[str, Any]) -> Dict[str, Any]:
        """What became of the settings, those not asked for too. Raises where one became another."""
        found = {}
        for owner in (self.config.cache_config, self.config.scheduler_config, self.config.model_config):
            for name in (*told, "enable_prefix_caching", "enable_chunked_prefill", "async_scheduling"):
                value = getattr(owner, "policy" if name == "scheduling_policy" else name, None)
                if name != "model" and name not in found and isinstance(value, (bool, int, float, str)):
                    found[name] = value
        changed = [f"{name} {told[name]} → {found[name]}" for name in told if found.get(name, told[name]) != told[name]]
        if changed:
            raise CannotServe("version", f"{self.version} changes settings here: {', '.join(changed)}")
        if found.pop("async_scheduling", False):
            raise CannotServe("version", f"{self.version} does not leave asynchronous scheduling off")
        return found

    def _groups(self) -> List[Any]:
        """Layers that share KV blocks, as the engine groups them."""
        text = getattr(self.config.model_config, "hf_text_config", None)
        kinds = list(getattr(text, "layer_types", None) or ["full_attention"])
        window = getattr(text, "sliding_window", None)
        if not _known(self.config.model_config, text, kinds, window):
            self.notes.append(NOT_KNOWN)
            kinds = ["full_attention"]
        shape = {"block_size": self.told["block_size"], "num_kv_heads": 1, "head_size": 64,
                 "dtype": _imported("torch").bfloat16}  # fmt: skip
        full, sliding = (_called(KV, name) for name in ("FullAttentionSpec", "SlidingWindowSpec"))
        layers = {
            f"layer.{place}": full(**shape) if kind == "full_attention" else sliding(sliding_window=window, **shape)
            for place, kind in enumerate(kinds)
        }
        if hasattr(self.config.cache_config, "get_resolved_kv_cache_layout"):
            # How a block lies in memory, which matters to layers of different sizes; here all have one.
            layouts = _imported("vllm.v1.attention.backends.utils")
            names = [layout.name for layout in layouts.get_supported_kv_cache_layouts([])]
            layouts.resolve_kv_cache_layout(self.config, [names], layers.values())
        found: List[Any] = _imported("vllm.v1.core.kv_cache_utils").get_kv_cache_groups(self.config, layers)
        return found

    def _scheduler(self, groups: List[Any]) -> Tuple[Any, int]:
        """And how many tokens are hashed together."""
        # The engine's own way to it knows what else belongs there. It counts tensors, and makes none.
        made_from = _imported("vllm.v1.core.kv_cache_utils")
        self.config.cache_config.num_gpu_blocks_override = self.told["num_gpu_blocks"]
        kv = made_from.get_kv_cache_config_from_groups(self.config, groups, AMPLE_BYTES)
        if kv.num_blocks != self.told["num_gpu_blocks"]:
            raise CannotServe("version", f"{self.version} makes {kv.num_blocks} KV blocks of those asked for")
        block_tokens = hash_tokens = self.told["block_size"]
        if len(groups) > 1:
            block_tokens, hash_tokens = made_from.resolve_kv_cache_block_sizes(kv, self.config)
        grammars = _imported("vllm.v1.structured_output").StructuredOutputManager(self.config)
        made = _called("vllm.v1.core.sched.scheduler", "Scheduler")(
            vllm_config=self.config, kv_cache_config=kv, structured_output_manager=grammars,
            block_size=block_tokens, hash_block_size=hash_tokens, log_stats=False,
        )  # fmt: skip
        lacking = [name for name in READ if not hasattr(made, name)]
        if lacking:
            raise CannotServe("version", f"{self.version}: its scheduler has no {', '.join(lacking)}")
        return made, hash_tokens

    def _hasher(self, hash_tokens: int) -> Any:
        hashed = _imported("vllm.v1.core.kv_cache_utils")
        algorithm = self.config.cache_config.prefix_caching_hash_algo
        function = _imported("vllm.utils.hashing").get_hash_fn_by_name(algorithm)
        hashed.init_none_hash(function)
        return hashed.get_request_block_hasher(hash_tokens, function)


def _known(model: Any, text: Any, kinds: List[str], window: Any) -> bool:
    """Whether it is told which layers see all of the context and which a window, and none keeps a state instead."""
    if getattr(model, "is_hybrid", False) or not set(kinds) <= {"full_attention", "sliding_attention"}:
        return False
    listed = bool(getattr(text, "layer_types", None))
    windowed = bool(window) and getattr(text, "use_sliding_window", True)
    return bool(window) or "sliding_attention" not in kinds if listed else not windowed


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != name.split(".")[0] or error.name == name.split(".")[0]:
            raise          # the engine itself, or something that it wants, is not there: that is no matter of version
        raise CannotServe("version", f"{engine_version()} has no {name}") from error


def _called(module: str, name: str) -> Callable[..., Any]:
    """The class, called by name with what this version wants; what it must have and we do not know is None."""
    kind: Optional[Callable[..., Any]] = getattr(_imported(module), name, None)
    if kind is None:
        raise CannotServe("version", f"{engine_version()}: {module} has no {name}")
    parameters = inspect.signature(kind).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    wanted = [n for n, p in parameters.items()
              if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]  # fmt: skip

    def call(**given: Any) -> Any:
        lacking = [] if open_ended else [n for n in given if n not in parameters]
        if lacking:
            raise CannotServe("version", f"{engine_version()}: {name} takes no {', '.join(lacking)}")
        return kind(**{**{n: None for n in wanted if n not in given}, **given})

    return call


def _short(error: Exception) -> str:
    """The engine's words on one line; its checks of types add a page's address."""
    return " ".join(str(error).split("For further information")[0].split())[:EXPLAINED] or type(error).__name__
