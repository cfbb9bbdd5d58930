! No call of MPI leaves a floating-point exception that the program did not cause: STOP would tell of it.
program exceptions
  use, intrinsic :: ieee_exceptions
  implicit none
  include 'mpif.h'
  integer :: error, rank, ranks, length, round, sum
  integer, allocatable :: from(:), into(:)
  double precision :: since
  logical :: flags(5)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  allocate (from(100000), into(100000 * ranks))
  from = rank
  since = MPI_Wtime()
  length = 1
  do while (length <= 100000)
    do round = 1, 3
      call MPI_Allreduce(from, into, length, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
      call MPI_Bcast(from, length, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
      call MPI_Allgather(from, length, MPI_INTEGER, into, length, MPI_INTEGER, MPI_COMM_WORLD, error)
      call MPI_Barrier(MPI_COMM_WORLD, error)
    end do
    length = length * 10
  end do
  call MPI_Reduce(1, sum, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
  call ieee_get_flag(ieee_all, flags)
  if (any(flags)) print *, 'FAILED: flags', flags
  if (rank == 0 .and. sum == ranks) print *, 'ok'
  stop
end program exceptions
