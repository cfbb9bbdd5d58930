! The module mpi: the constants of mpif.h, and interfaces of the subroutines that take data of any type.
module mpi
  implicit none
  include 'mpif.h'
  include 'interfaces.inc'
  include 'sizeof_interface.inc'
contains
  include 'sizeof.inc'
end module
