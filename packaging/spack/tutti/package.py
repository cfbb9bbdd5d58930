"""Tutti for Spack: put this folder into `packages` of a repository of yours (`spack repo create`)."""

import os

from spack.package import *


class Tutti(MakefilePackage):
    """An MPI library of the MPI 5.0 standard ABI, whose centre is collective communication."""

    homepage = "https://example.org/tutti"
    # Where the sources are: `spack develop --path FOLDER tutti@main`.
    version("main")

    provides("mpi@:5.0")

    variant("fortran", default=True, description="The modules mpi and mpi_f08 of the compiler")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("rust@1.95:", type="build")

    def build(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("build", "--release", "--workspace", "--locked")

    def install(self, spec, prefix):
        set_env = {"STRIP": "1"}
        Executable("scripts/install.sh")(str(prefix), extra_env=set_env)
        if "+fortran" in spec:
            Executable("scripts/fortran.sh")(str(prefix), extra_env={"FC": os.environ["FC"]})

    def setup_dependent_build_environment(self, env, dependent_spec):
        for variable, wrapper in (("MPICC", "mpicc"), ("MPICXX", "mpicxx"), ("MPIFC", "mpifort")):
            env.set(variable, join_path(self.prefix.bin, wrapper))
        env.set("TUTTI_CC", os.environ.get("SPACK_CC", "cc"))
        env.set("TUTTI_CXX", os.environ.get("SPACK_CXX", "c++"))
        env.set("TUTTI_FC", os.environ.get("SPACK_FC", "gfortran"))

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = join_path(self.prefix.bin, "mpicc")
        self.spec.mpicxx = join_path(self.prefix.bin, "mpicxx")
        self.spec.mpifc = join_path(self.prefix.bin, "mpifort")
        self.spec.mpif77 = self.spec.mpifc
