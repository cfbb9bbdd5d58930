! What the modules of MPICH and Open MPI have beside subroutines: polymorphic handles, MPI_Sizeof, sections of arrays, comparisons,
! arguments that stand for nothing, persistent operations.
program other_modules
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, ranks, next, before, bytes, error, at, flat(8)
  integer :: grid(6, 4), got(6, 4)
  real(8) :: double(3)
  complex :: wide
  logical :: truth, flag
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  type(MPI_Comm) :: comm, graph
  type(MPI_Datatype) :: pair
  type(MPI_Request) :: request, both(2)
  type(MPI_Status) :: status
  type(MPI_Message) :: message
  class(*), allocatable :: anything, another

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  next = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)

  ! Types in polymorphic variables are told apart by numbers that the compiler keeps.
  comm = MPI_COMM_WORLD
  allocate(anything, source=comm)
  allocate(another, source=MPI_COMM_SELF)
  call check(same_type_as(anything, another) .and. storage_size(anything) == 32, "types that are the same")
  deallocate(another)
  allocate(another, source=MPI_INTEGER)
  call check(.not. same_type_as(anything, another), "types that differ")
  call check(MPI_INTEGER /= MPI_REAL .and. MPI_SUM == MPI_SUM .and. MPI_DATATYPE_NULL /= MPI_BYTE, "comparisons")

  ! Sizes.
  call MPI_Sizeof(rank, bytes, error)
  call check(bytes == 4, "size of an integer")
  call MPI_Sizeof(double, bytes, error)
  call check(bytes == 8, "size of doubles")
  call MPI_Sizeof(wide, bytes, error)
  call check(bytes == 8, "size of a complex")

  ! A block of a grid, and one that a call takes without waiting.
  grid = reshape([(100 * rank + at, at = 1, 24)], [6, 4])
  got = 0
  call MPI_Sendrecv(grid(2:5:3, 2:3), 4, MPI_INTEGER, next, 1, flat, 4, MPI_INTEGER, before, 1, MPI_COMM_WORLD, status)
  call check(all(flat(1:4) == 100 * before + [8, 11, 14, 17]), "a section")
  call MPI_Get_count(status, MPI_INTEGER, at)
  call check(at == 4 .and. status%MPI_SOURCE == before, "the status of a section")
  call MPI_Irecv(got, 24, MPI_INTEGER, before, 2, MPI_COMM_WORLD, request)
  call MPI_Send(grid, 24, MPI_INTEGER, next, 2, MPI_COMM_WORLD)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call check(got(6, 4) == 100 * before + 24, "a whole grid")

  ! Persistent operations, probes, what is waited for at once.
  call MPI_Send_init(rank, 1, MPI_INTEGER, next, 3, MPI_COMM_WORLD, both(1))
  call MPI_Recv_init(at, 1, MPI_INTEGER, before, 3, MPI_COMM_WORLD, both(2))
  call MPI_Startall(2, both)
  call MPI_Waitall(2, both, MPI_STATUSES_IGNORE)
  call check(at == before, "a persistent message")
  call MPI_Request_free(both(1))
  call MPI_Request_free(both(2))
  call MPI_Isend(rank, 1, MPI_INTEGER, next, 4, MPI_COMM_WORLD, request)
  call MPI_Mprobe(before, 4, MPI_COMM_WORLD, message, status)
  call MPI_Mrecv(at, 1, MPI_INTEGER, message, status)
  call MPI_Wait(request, status)
  call check(at == before .and. message == MPI_MESSAGE_NULL, "a matched probe")

  ! What stands for nothing, or for all.
  call MPI_Bcast(MPI_BOTTOM, 0, MPI_BYTE, 0, MPI_COMM_WORLD)
  at = rank
  call MPI_Allreduce(MPI_IN_PLACE, at, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call check(at == ranks * (ranks - 1) / 2, "in place")
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [before], MPI_UNWEIGHTED, 1, [next], MPI_UNWEIGHTED, MPI_INFO_NULL, &
                                      .false., graph)
  call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, flat, 1, MPI_INTEGER, graph)
  call check(flat(1) == before, "a graph without weights")
  call MPI_Comm_free(graph)
  call MPI_Test_cancelled(status, truth)
  call MPI_Comm_test_inter(MPI_COMM_WORLD, flag)
  call check(.not. truth .and. .not. flag, "truths")
  call MPI_Get_processor_name(name, at)
  call check(at > 0 .and. name /= " ", "a name")
  call MPI_Type_vector(2, 1, 3, MPI_INTEGER, pair)
  call MPI_Type_commit(pair)
  call MPI_Type_size(pair, bytes)
  call MPI_Type_free(pair)
  call check(bytes == 8 .and. pair == MPI_DATATYPE_NULL, "a datatype")
  if (rank == 0) print '(a)', "all is well in Fortran"
  call MPI_Finalize()

contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print '(a, i0, 2a)', "rank ", rank, ": wrong: ", what
      call MPI_Abort(MPI_COMM_WORLD, 1)
    end if
  end subroutine
end program
