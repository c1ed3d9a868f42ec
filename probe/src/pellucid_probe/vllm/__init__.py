"""vLLM: hooks by process. `register` is the entry point of the plugin group `vllm.general_plugins`.

vLLM calls it once in each process, early: while parsing arguments in the frontend, first thing in `EngineCore.__init__`
and in `WorkerWrapperBase.init_worker`. Which roles a process has is known when those objects are made, so `register`
arms the role it is called from and lays triggers for the others. One process can have several (uniproc executor,
offline `LLM`).
"""


def register() -> None:
    """Never raises: an exception in a general plugin would stop the engine."""
    try:
        from pellucid_probe.vllm.arm import begin

        begin()
    except Exception as error:
        import sys

        print(f"pellucid: the probe stays off: {type(error).__name__}: {error}", file=sys.stderr)
