"""NVIDIA's assembler, where it is installed."""

import os
import shutil
import subprocess

import pytest

PTXAS = shutil.which("ptxas") or next((p for p in ["/usr/local/cuda/bin/ptxas"] if os.path.exists(p)), None)

needs_assembler = pytest.mark.skipif(PTXAS is None, reason="NVIDIA's assembler ptxas is not installed")


def assemble(text, arch, folder):
    """Assemble PTX; an error if it is refused."""
    source = folder / "kernel.ptx"
    source.write_text(text)
    subprocess.run([PTXAS, f"-arch={arch}", "-o", folder / "kernel.cubin", source], check=True)
