"""The machine: processes and devices."""

from __future__ import annotations

from pellucid.store.column import F64, PROVENANCE, STR, Table, columns

HOST = Table("host", "a second of one engine process", (
    *PROVENANCE,
    *columns("""
        time_ns: end of the interval
        interval_ns: its length
        cpu_user_ns: CPU time in user mode
        cpu_system_ns: CPU time in the kernel
        rss_bytes: resident memory
        threads_count: threads
        voluntary_switches_count: waits
        involuntary_switches_count: times it lost its core
        gc_count: garbage collections
        gc_pause_ns: time in them
        gc_pause_max_ns: the longest
        probe_ns: time in our hooks, all threads
        probe_errors_count: errors in our hooks since start
        ring_dropped_count: records the ring had no room for since start
        """),
))  # fmt: skip

GPU = Table("gpu", "a sample of one device", (
    *columns("""
        deployment: as elsewhere
        device: index and product name
        throttle_reasons: what holds the clock down, joined with +; empty text for nothing
        """, STR),
    *columns("""
        time_ns: when
        interval_ns: since the previous sample
        memory_used_bytes: device memory in use
        memory_total_bytes: device memory
        sm_clock_hz: SM clock
        memory_clock_hz: memory clock
        xid_count: XID errors seen since the recorder started
        """),
    *columns("""
        utilisation_ratio: share of time with a kernel running, from NVML; 1.0 does not mean the device is full
        memory_utilisation_ratio: share of time with memory traffic
        power_watts: board power
        energy_joules: energy since the driver was loaded
        temperature_celsius: GPU temperature
        """, F64),
))  # fmt: skip
