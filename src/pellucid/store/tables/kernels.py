"""What the device did in a capture: kernels, the steps they belong to, and what a kernel profiler counted in them."""

from __future__ import annotations

from pellucid.store.column import F64, PROVENANCE, STR, Table, columns

CAPTURES = Table("captures", "a kernel trace: a capture of a running engine, or a file that somebody loaded", (
    *PROVENANCE,
    *columns("""
        capture: id of the capture, the same in all tables
        format: torch_profiler, nsys_sqlite, nsys_csv, ncu_csv, kernel_table
        file: name of the file it was read from, without its folder
        model: name of the model, where the trace or the run tells
        device_name: as the driver spells it
        compute_capability: such as 9.0; null on devices without one
        damage: what was not whole in the file, in words; null where nothing was found
        ceilings: what roof_ns of its kernels was computed with, as JSON: rates, whether measured, and by whom
        """, STR),
    *columns("""
        rank: rank in the job; null where the file does not tell
        ranks_count: ranks of the job; null where the file does not tell
        devices_count: devices that ran kernels
        processors_count: multiprocessors or compute units of the device
        device_memory_bytes: memory of the device
        wall_start_ns: Unix time of start_ns; null where the file does not tell
        start_ns: first event, in the clock of the file; of a running engine in the clock of steps
        end_ns: last event
        steps_count: engine steps recognised in it
        kernels_count: kernels, or in a table of sums their executions
        kernels_ns: sum of their durations
        host_events_count: operators, runtime calls and ranges of the host
        damaged_count: events that could not be read
        redacted_count: values dropped because they may be secret
        start_cost_ns: for how long starting the capture held up the engine; null in a loaded file
        stop_cost_ns: for how long stopping it did; null in a loaded file
        export_ns: for how long the trace was written, beside the engine; null in a loaded file
        longest_gap_ns: longest time between two tokens of a request from its start to its stop; null in a loaded file
        trace_bytes: size of the trace as the profiler wrote it
        """),
))  # fmt: skip

CAPTURE_STEPS = Table("capture_steps", "an engine step in a capture, and how its time on one device passed", (
    *PROVENANCE,
    *columns("""
        capture: id of the capture
        phase: prefill, decode or mixed; null where it cannot be told
        phase_basis: run, annotation, shapes or kernels: what the phase was told by
        graph: full, piecewise or none: how much of the step's kernels a device graph launched; null where not visible
        label: the engine's own name of the step
        """, STR),
    *columns("""
        step: number in the capture from 0; of a running engine the number in steps
        device_index: number of the device
        start_ns: start of its first kernel
        end_ns: end of its last kernel
        host_start_ns: start of the host's range around it; null where there is none
        host_end_ns: end of the host's range around it
        prefill_requests_count: requests whose prompt was computed
        prefill_tokens: prompt tokens computed
        decode_requests_count: requests that decoded
        decode_tokens: tokens computed for them
        kernels_count: kernels
        kernels_ns: sum of their durations, on all streams
        busy_ns: time with at least one kernel
        idle_nothing_ns: device idle with no request there, so nothing to do; null in a loaded file: a trace cannot tell
        idle_launch_ns: device idle, waiting for the host to launch; in a loaded file with what idle_nothing_ns would be
        idle_sync_ns: device idle while the host waited for it
        idle_copy_ns: device idle but for copies and fills
        idle_queued_ns: device idle with its next kernel launched: late by itself, or waiting for another stream
        idle_unknown_ns: device idle, the launch of its next kernel not visible
        comm_exposed_ns: communication kernels with no other kernel beside them
        idle_before_ns: device idle between the step before and this one; null in the first
        """),
), raw=True)  # fmt: skip

KERNELS = Table("kernels", "a kernel in a capture; in a table of sums, all executions of a name", (
    *PROVENANCE,
    *columns("""
        capture: id of the capture
        name: as the profiler gives it
        kind: kernel, memcpy or memset on a device, or op: an operator of the host, in a trace without a device
        class: what it does, a category of the classification; unknown where neither name nor operator tells
        detail: finer, such as a library or a generation; null where not known
        op: the host's operator that launched it; null where the trace has none
        shapes: the operator's input shapes, as JSON
        types: the operator's input types, as JSON
        phase: prefill, decode or mixed; null where it cannot be told
        precision: number format it computes in, such as bf16, fp8, int4; null where not known
        work_basis: shapes, geometry or profiler: what flop and moved_bytes come from; null where not known
        work_note: what had to be assumed for them, or why they are not known; null where there is nothing to say
        bound: compute or memory: which of them roof_ns comes from; null without roof_ns
        roof_basis: measured or peak: the ceilings of roof_ns; "disputed" behind it where their sources differ
        grid: blocks, as x,y,z
        block: threads of a block, as x,y,z
        """, STR),
    *columns("""
        step: as in capture_steps; null outside steps
        layer: layer of the model, from 0; null outside layers, or where layers do not show
        device_index: number of the device
        stream: number of the stream
        correlation: the profiler's number of its launch
        start_ns: start, in the clock of captures; null in a table of sums
        duration_ns: duration; in a table of sums, that of all executions
        roof_ns: the least time the device can do this work in; null where the work or the device is not known
        count: 1; in a table of sums, executions
        """),
    *columns("""
        flop: operations it has to do
        moved_bytes: bytes it has to read and write in the device's memory
        """, F64),
), raw=True)  # fmt: skip

KERNEL_METRICS = Table("kernel_metrics", "a value that a kernel profiler counted in one execution of a kernel", (
    *PROVENANCE,
    *columns("""
        capture: id of the capture
        name: name of the kernel
        class: as in kernels
        section: section of the profiler's report; null in a plain table of metrics
        metric: the profiler's name of the metric
        unit: the profiler's unit, after bytes, nanoseconds and hertz were made of their multiples
        text: the value where it is no number
        """, STR),
    *columns("""
        launch: number of the execution in the report
        """),
    *columns("""
        value: the value
        """, F64),
), raw=True)  # fmt: skip
