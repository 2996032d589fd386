"""What a server that did not start is taken for, from what servers really wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgesweep_agent.core import serverlog
from edgesweep_agent.core.startfacts import Asked, Exit, ended
from edgesweep_agent.core.startfail import classify, root_cause

LOGS = Path(__file__).parents[1] / "fixtures" / "server_logs"
MIB, GIB = 1 << 20, 1 << 30
ASKED = Asked("xllamacpp", "m.gguf", port=18556, slots=2, context_per_request=8_000_000)
VLLM = Asked("vllm", "smollm2", slots=2, context_per_request=4096)


def log(name):
    return (LOGS / f"{name}.log").read_text()


@pytest.mark.parametrize(
    ("name", "asked", "kind", "says"),
    [
        ("llamacpp_missing", ASKED, "model_missing", "m.gguf: No such file or directory"),
        ("llamacpp_not_gguf", ASKED, "not_a_model", "m.gguf is no GGUF file"),
        ("llamacpp_cut_short", ASKED, "not_a_model", "m.gguf is cut short"),
        ("llamacpp_port_taken", ASKED, "port_taken", "port 18556 is taken"),
        ("llamacpp_kv_too_large", ASKED, "kv_too_large", "a context_per_request of 546426 would"),
        ("vllm_kv_too_large", VLLM, "kv_too_large", "lower context_per_request to 1024"),
        ("vllm_cpu_memory", VLLM, "ram", "21.61 of 23.54 GiB of memory are available"),
        ("vllm_no_weights", VLLM, "model_missing", "smollm2 is no folder with a model"),
        ("vllm_no_model", VLLM, "model_missing", "config.json, the tokenizer"),
        ("vllm_port_taken", VLLM, "port_taken", "taken by another program"),
        ("vllm_bad_argument", VLLM, "bad_argument", "vllm does not take --swap-space"),
        ("vllm_bad_value", VLLM, "bad_argument", "--max-num-seqs invalid int value: 'two'"),
    ],
)
def test_what_servers_wrote_is_understood(name, asked, kind, says):
    found = classify(Exit(code=1), log(name), asked, 4.0)
    assert found.kind == kind
    assert says in found.line
    assert "\n" not in found.line


@pytest.mark.parametrize(
    ("text", "kind", "figures"),
    [
        (
            (
                "Free memory on device cuda:0 (3.5/7.4 GiB) on startup is less than desired GPU "
                "memory utilization (0.92, 6.81 GiB). Decrease GPU memory utilization or reduce"
            ),
            "gpu_memory",
            {"available_bytes": 3.5 * GIB, "needed_bytes": 6.81 * GIB, "utilization": 0.92},
        ),
        ("ValueError: No available memory for the cache blocks. Try", "kv_too_large", {}),
        ("AssertionError: Error in memory profiling. Initial free memory 5", "memory_moved", {}),
        (
            "CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please",
            "gpu_memory",
            {},
        ),
        ("max_num_seqs (64) exceeds available Mamba cache blocks (12).", "kv_too_large", {}),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has",
            "gpu_memory",
            {"needed_bytes": 2.5 * GIB},
        ),
        (
            (
                "- CUDA0   : Orin (7607 MiB, 2000 MiB free)\n"
                "load_tensors:        CUDA0 model buffer size =   500.00 MiB\n"
                "allocating 3072.00 MiB on device 0: cudaMalloc failed: out of memory\n"
                "llama_init_from_model: failed to initialize the context: failed to allocate "
                "buffer for kv cache"
            ),
            "kv_too_large",
            {
                "needed_bytes": 3072 * MIB,
                "available_bytes": 1500 * MIB,
                "context_that_fits": 2000,
                "slots_that_fit": 1,
            },
        ),
        (
            (
                "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 900.00 MiB on device 0: "
                "cudaMalloc failed: out of memory\nunable to allocate CUDA0 buffer"
            ),
            "gpu_memory",
            {"needed_bytes": 900 * MIB},
        ),
        (
            (
                "RuntimeError: [enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate "
                "memory: you tried to allocate 1048576000 bytes. Error code 12"
            ),
            "ram",
            {"needed_bytes": 1048576000},
        ),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "ram", {}),
        (
            "llama-server: error while loading shared libraries: libcuda.so.1: cannot open",
            "missing_library",
            {},
        ),
        ("/usr/bin/python3: No module named vllm", "missing_library", {}),
        ('error while handling argument "--cache-ram": invalid stoi', "bad_argument", {}),
        ("error: invalid argument: --fit", "bad_argument", {}),
        (
            "docker: Error response from daemon: unknown or invalid runtime name: nvidia",
            "container",
            {},
        ),
        ("error loading model architecture: unknown model architecture: 'new'", "not_a_model", {}),
    ],
)
def test_other_wordings_are_understood(text, kind, figures):
    asked = Asked("llama-server", "m.gguf", slots=4, context_per_request=4096)
    found = classify(Exit(code=1), text, asked, 20.0)
    assert found.kind == kind
    assert found.next_step
    for name, value in figures.items():
        assert found.figures[name] == pytest.approx(value, rel=0.01)


def test_a_context_that_fits_is_computed_from_what_failed_and_what_is_there():
    found = classify(Exit(code=1), log("llamacpp_kv_too_large"), ASKED, 5.0)
    assert found.figures["kv_bytes_per_token"] == 23040
    limited = Asked("xllamacpp", "m", None, 4, 8192, available_bytes=100 * MIB)
    text = "failed to allocate CPU buffer of size 754974720\nfailed to allocate buffer for kv cache"
    found = classify(Exit(code=1), text, limited, 5.0)
    assert found.figures["context_that_fits"] == 100 * MIB // 23040 // 4
    assert "with 4 slots a context_per_request of 1137 would fit" in found.next_step


@pytest.mark.parametrize(
    ("end", "text", "kind", "says"),
    [
        (ended(-4), "init: llama threadpool init", "illegal_instruction", "CPU this machine does"),
        (ended(132), "", "illegal_instruction", "(it wrote nothing)"),
        (ended(-9), "ModuleNotFoundError: No module named 'x'", "killed", "journalctl -k"),
        (ended(137, oom_kills=1), "", "ram", "the kernel killed the engine for memory (1 kill"),
        (ended(-9, oom_kills=0), "", "killed", "memory.events"),
        (ended(134), "CUDA error: out of memory\n", "gpu_memory", "the GPU's memory ran out"),
        (ended(-11), "x\nllama_decode: y", "crashed", "SIGSEGV; its last line: llama_decode: y"),
        (ended(0), "", "exited_at_once", "exit code 0 after 1.0 s"),
        (ended(7), "I have no name for it", "unknown", "exit code 7 after 1.0 s: I have no name"),
        (None, "a\nWarming up model for the compilation...\n", "hang", "within 1 s; its last line"),
        (None, "", "hang", "it wrote nothing"),
    ],
)
def test_how_it_ended_counts_where_nothing_was_said(end, text, kind, says):
    found = classify(end, text, ASKED, 1.0)
    assert found.kind == kind
    assert says in found.line


def test_a_module_that_vllm_does_without_is_no_cause():
    text = (
        "WARNING 11-30 21:00:00 [interface.py:1] Failed to import from vllm._C with "
        "ModuleNotFoundError(\"No module named 'vllm._C'\")\nRuntimeError: something else\n"
    )
    assert classify(Exit(code=1), text, VLLM, 9.0).kind == "unknown"


def test_the_root_cause_lies_above_vllms_summary():
    text = (
        "(EngineCore pid=7) ERROR 11-30 12:00:00 [core.py:9] Traceback (most recent call last):\n"
        "(EngineCore pid=7) ERROR 11-30 12:00:00 [core.py:9] KeyError: 'rope'\n"
        "(APIServer pid=1) Traceback (most recent call last):\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {'EngineCore': 1}\n"
        "asyncio.exceptions.CancelledError: shutting down\n"
    )
    assert root_cause(text) == "KeyError: 'rope'"
    assert root_cause("one\nfailed to do it\nbye\n") == "failed to do it"
    assert root_cause("one\nbye\n") == "bye"


def test_sizes_of_llamacpp_are_read():
    found = serverlog.llamacpp(log("llamacpp_sizes"))
    assert found == serverlog.Reported(
        model_buffer_bytes=round(92.10 * MIB),
        kv_buffer_bytes=2 * 512 * 23040,
        compute_buffer_bytes=round(15.14 * MIB),
        kv_tokens=1024,
        n_slots=2,
        n_ctx_slot=512,
        kv_unified=False,
        flash_attention="enabled",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            (
                "llm_load_tensors:      CUDA0 model buffer size =  4095.05 MiB\n"
                "llm_load_tensors:        CPU model buffer size =    70.31 MiB\n"
                "llama_kv_cache_init:      CUDA0 KV buffer size =   256.00 MiB\n"
                "llama_new_context_with_model: KV self size  =  256.00 MiB, K (f16):  128.00 MiB\n"
                "llama_new_context_with_model: n_ctx      = 2048\n"
                "llama_new_context_with_model: flash_attn = 1\n"
                "srv          init: initializing slots, n_slots = 4\n"
            ),
            serverlog.Reported(
                model_buffer_bytes=round(4165.36 * MIB),
                kv_buffer_bytes=256 * MIB,
                kv_tokens=2048,
                n_slots=4,
                flash_attention="1",
            ),
        ),
        (
            (
                "llama_kv_cache: CUDA0 KV buffer size = 10.00 MiB\n"
                "llama_kv_cache: size = 10.00 MiB (  4096 cells,   4 layers,  8/1 seqs), K (f16)\n"
                "llama_kv_cache: CUDA0 KV buffer size =  2.00 MiB\n"
                "llama_kv_cache: size =  2.00 MiB (  1024 cells,  20 layers,  8/1 seqs), K (f16)\n"
                "llama_memory_recurrent: CUDA0 RS buffer size = 3.00 MiB\n"
                "llama_context: kv_unified    = true\n"
            ),
            serverlog.Reported(
                kv_buffer_bytes=12 * MIB,
                recurrent_buffer_bytes=3 * MIB,
                kv_tokens=4096,
                kv_unified=True,
            ),
        ),
        ("srv  init: listening on http://127.0.0.1:8080\n", serverlog.Reported()),
    ],
    ids=["2024", "sliding window", "says nothing"],
)
def test_other_builds_of_llamacpp_are_read_as_far_as_they_tell(text, expected):
    assert serverlog.llamacpp(text) == expected


def test_sizes_of_vllm_are_read():
    found = serverlog.vllm(log("vllm_cpu_ready"))
    assert found.kv_buffer_bytes == 26542080
    assert found.kv_tokens == 1152
    assert found.max_concurrency == 2.25
    assert found.n_slots == 2
    assert found.n_ctx_slot == 512
    assert found.model_buffer_bytes is None
    assert found.jit_lines == ()


def test_vllm_on_a_gpu_in_the_older_wording():
    text = (
        "INFO [gpu_model_runner.py:1] Model loading took 2.8900 GiB and 3.1 seconds\n"
        "INFO [gpu_worker.py:1] Available KV cache memory: 1.50 GiB\n"
        "INFO [kv_cache_utils.py:1] GPU KV cache size: 56,160 tokens\n"
        "INFO [kv_cache_utils.py:1] Maximum concurrency for 2,048 tokens per request: 27.42x\n"
        "INFO [gpu_model_runner.py:1] Graph capturing finished in 20 secs, took 0.25 GiB\n"
        "WARNING [jit.py:1] Triton kernel JIT compilation during inference: _fwd took 2.1 s\n"
    )
    found = serverlog.vllm(text)
    assert found.model_buffer_bytes == round(2.89 * GIB)
    assert found.kv_buffer_bytes == 1.5 * GIB
    assert found.kv_tokens == 56160
    assert found.max_concurrency == 27.42
    assert found.compute_buffer_bytes == 0.25 * GIB
    assert len(found.jit_lines) == 1
