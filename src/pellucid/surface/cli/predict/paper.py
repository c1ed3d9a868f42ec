"""`pellucid predict --model config.json --gpu H200`: fit, bounds of speed and cost, without an engine."""

from __future__ import annotations

import argparse
import math

from pellucid.core.errors import AskedWrongly
from pellucid.core.units import parse_size_bytes
from pellucid.surface.cli.options import MOST_DIGITS, path, print_json, say, span_ns

CHOSEN_BY = "model"
HELP = """On paper, from a checkpoint's config.json and a GPU of the catalogue:

    pellucid predict --model config.json --gpu H200 --gpus 8
    pellucid predict --model a.json --against b.json --gpu H200 --gpus 8 --precision fp8
    pellucid predict --model a.json --gpu B200 --gpus 4 --prompt 8000 --output 1000 --concurrency 128 --tpot 20ms
    pellucid predict --model a.json --gpu H200 --gpu-hour 3.50 --api-in 0.30 --api-out 1.20

Every placement of the model is looked at; the best comes first, with why the others are behind. Speeds are bounds made
of data sheets: no engine is faster. Where engines were seen on such a GPU, a range says how near they came."""


def prepare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("on paper")
    group.add_argument("--model", type=path, metavar="FILE", help="config.json of a checkpoint, or its folder")
    group.add_argument("--against", type=path, metavar="FILE", help="another one, to compare with")
    group.add_argument("--gpu", metavar="NAME", help="a GPU of the catalogue: H200, h100_sxm, 'NVIDIA B200'")
    group.add_argument("--gpus", type=whole, metavar="N", help="how many, all of them used (default: 1)")
    group.add_argument("--placement", metavar="P", help="this one alone: TP8, 'TP4 DP2 EP8' (default: all there are)")
    group.add_argument("--precision", metavar="P", help="of the weights: bf16, fp8, nvfp4, fp8_weights … (default: the checkpoint's)")  # noqa: E501
    group.add_argument("--kv", metavar="P", help="of KV: bf16, fp8 … (default: bf16)")
    group.add_argument("--prompt", type=whole, default=1024, metavar="N", help="tokens of a prompt (default: 1024)")
    group.add_argument("--output", type=whole, default=256, metavar="N", help="tokens of an answer (default: 256)")
    group.add_argument("--concurrency", type=whole, default=64, metavar="N", help="requests under way (default: 64)")
    group.add_argument("--tpot", type=span_ns, metavar="SPAN", help="a target: how many requests can have a token in each 20ms?")  # noqa: E501
    group.add_argument("--mtp", type=whole, default=0, metavar="N", help="draft N tokens with the model's MTP heads")
    group.add_argument("--share", type=real, default=0.9, metavar="R", help="of a GPU's memory that the engine may have (default: 0.9)")  # noqa: E501
    group.add_argument("--reserve", type=size_bytes, metavar="SIZE", help="held beside weights, KV and activations, 2GiB (default: what engines were seen to hold)")  # noqa: E501
    group.add_argument("--page", type=whole, default=16, metavar="N", help="tokens in a KV block (default: 16)")
    group.add_argument("--step-tokens", type=whole, default=8192, metavar="N", help="tokens of a step at most (default: 8192)")  # noqa: E501
    group.add_argument("--gpu-hour", type=real, metavar="PRICE", help="of one GPU for an hour")
    group.add_argument("--api-in", type=real, metavar="PRICE", help="an API's, for a million prompt tokens")
    group.add_argument("--api-out", type=real, metavar="PRICE", help="an API's, for a million output tokens")


def run(args: argparse.Namespace) -> int:
    from pellucid.sim.paper.cost import Api
    from pellucid.verbs.predict.paper import Question, predict_on_paper

    if args.gpu is None:
        raise AskedWrongly("--model wants --gpu too. Try: --gpu H200")
    if (args.api_in is None) != (args.api_out is None):
        raise AskedWrongly("--api-in and --api-out go together: an API has a price for both")
    api = None if args.api_in is None else Api(args.api_in, args.api_out)
    answer = predict_on_paper(Question(
        args.model, args.gpu, args.gpus, args.placement, args.against, args.precision, args.kv, args.prompt,
        args.output, args.concurrency, args.mtp, args.tpot, args.share, args.reserve, args.page, args.step_tokens,
        args.gpu_hour, api,
    )).json()  # fmt: skip
    if args.json:
        print_json(answer)
        return 0
    from pellucid.surface.cli.render.page import show
    from pellucid.surface.cli.render.paper import paper

    show(paper(answer), wide=True)
    for note in answer["notes"]:
        say(note)
    return 0


def whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number")
    return int(text)


def real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number")
    return value


def size_bytes(text: str) -> float:
    try:
        return parse_size_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
