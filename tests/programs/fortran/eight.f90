! Fortran 2008: handles as types, error codes left out, statuses, callbacks, comparisons, keywords.
module functions
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: deleted = 0, handled = 0
contains
  subroutine largest_modulus(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len, at
    type(MPI_Datatype) :: datatype
    real(8), pointer :: given(:), kept(:)
    if (datatype /= MPI_DOUBLE_PRECISION) error stop "the operator's datatype"
    call c_f_pointer(invec, given, [len])
    call c_f_pointer(inoutvec, kept, [len])
    do at = 1, len
      if (abs(given(at)) > abs(kept(at))) kept(at) = given(at)
    end do
  end subroutine

  subroutine forget(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    deleted = int(attribute_val + extra_state)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine on_error(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code, class
    call MPI_Error_class(error_code, class)
    if (class == MPI_ERR_RANK .and. comm /= MPI_COMM_NULL) handled = handled + 1
  end subroutine
end module

program eight
  use mpi_f08
  use functions
  implicit none
  integer :: rank, ranks, next, before, count, error, keyval, length, at
  integer :: numbers(4), got(4), ring(1), numbers_of_status(MPI_STATUS_SIZE)
  integer(MPI_ADDRESS_KIND) :: value, bytes
  real(8) :: mine(2), all(2)
  real(8), pointer :: memory(:)
  logical :: flag, periods(1)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  type(c_ptr) :: place
  type(MPI_Comm) :: comm, line
  type(MPI_Group) :: group
  type(MPI_Datatype) :: pair
  type(MPI_Op) :: modulus
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Errhandler) :: handler, found
  type(MPI_Win) :: win
  type(MPI_File) :: file
  type(MPI_Info) :: info
  integer(MPI_COUNT_KIND) :: many

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(comm=MPI_COMM_WORLD, size=ranks, ierror=error)
  call check(error == MPI_SUCCESS, "keywords")
  next = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)

  ! Messages, with sections that do not lie together.
  numbers = [rank, -1, rank + 100, -1]
  got = 0
  call MPI_Irecv(got, 2, MPI_INTEGER, before, 5, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(ring, 1, MPI_INTEGER, MPI_PROC_NULL, 5, MPI_COMM_WORLD, requests(2))
  call MPI_Send(numbers(1:3:2), 2, MPI_INTEGER, next, 5, MPI_COMM_WORLD)
  call MPI_Waitall(2, requests, statuses)
  call check(all_equal(got(1:2), [before, before + 100]), "a section")
  call check(statuses(1)%MPI_SOURCE == before .and. statuses(1)%MPI_TAG == 5, "fields of a status")
  call MPI_Get_count(statuses(1), MPI_INTEGER, count)
  call check(count == 2 .and. requests(1) == MPI_REQUEST_NULL .and. requests(2) == MPI_REQUEST_NULL, "count")
  call MPI_Status_f082f(statuses(1), numbers_of_status)
  call MPI_Status_f2f08(numbers_of_status, status)
  call check(status%MPI_SOURCE == before .and. numbers_of_status(MPI_TAG) == 5, "statuses both ways")
  call MPI_Sendrecv(rank, 1, MPI_INTEGER, next, 1, ring, 1, MPI_INTEGER, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(ring(1) == before, "MPI_STATUS_IGNORE")

  ! Large counts, and the names of the profiling interface.
  got = 0
  call MPI_Irecv(got, 2_MPI_COUNT_KIND, MPI_INTEGER, before, 6, MPI_COMM_WORLD, requests(1))
  call PMPI_Send(numbers(2:3), 2_MPI_COUNT_KIND, MPI_INTEGER, next, 6, MPI_COMM_WORLD)
  call PMPI_Wait(requests(1), status)
  call MPI_Get_count(status, MPI_INTEGER, many)
  call check(many == 2 .and. all_equal(got(1:2), [-1, before + 100]), "a large count")
  call PMPI_Get_count(status, MPI_INTEGER, count)
  call check(count == 2, "a small count")
  call MPI_Type_create_struct(2_MPI_COUNT_KIND, [1_MPI_COUNT_KIND, 2_MPI_COUNT_KIND], &
                              [0_MPI_COUNT_KIND, 8_MPI_COUNT_KIND], [MPI_INTEGER, MPI_REAL8], pair)
  call PMPI_Type_size(pair, many)
  call check(many == 20, "a datatype of large counts")
  call MPI_Type_free(pair)
  call PMPI_Allreduce(rank, at, 1_MPI_COUNT_KIND, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
  call check(at == ranks - 1 .and. PMPI_Wtime() > 0, "a collective of a large count")

  ! Collectives, an operator of ours, in place.
  call MPI_Op_create(largest_modulus, .true., modulus)
  mine = [real(8) :: -rank, rank]
  call MPI_Allreduce(mine, all, 2, MPI_DOUBLE_PRECISION, modulus, MPI_COMM_WORLD)
  call check(nint(all(1)) == 1 - ranks .and. nint(all(2)) == ranks - 1, "operator")
  call MPI_Allreduce(MPI_IN_PLACE, mine, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call check(nint(mine(2)) == ranks * (ranks - 1) / 2, "in place")
  call MPI_Op_free(modulus)
  call check(modulus == MPI_OP_NULL, "a handle after its end")

  ! Attributes, error handlers, names.
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, keyval, 1000_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(comm, keyval, 7_MPI_ADDRESS_KIND)
  call MPI_Comm_get_attr(comm, keyval, value, flag)
  call check(flag .and. value == 7, "attribute")
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
  call check(flag .and. value >= 32767, "MPI_TAG_UB")
  call MPI_Comm_create_errhandler(on_error, handler)
  call MPI_Comm_set_errhandler(comm, handler)
  call MPI_Comm_get_errhandler(comm, found)
  call check(found == handler, "the same error handler")
  call MPI_Send(rank, 1, MPI_INTEGER, ranks + 3, 0, comm, error)
  call check(error /= MPI_SUCCESS .and. handled == 1, "error handler")
  call MPI_Errhandler_free(handler)
  call MPI_Errhandler_free(found)
  call MPI_Comm_set_name(comm, "a name")
  call MPI_Comm_get_name(comm, name, length)
  call check(name == "a name" .and. length == 6, "name")
  call MPI_Comm_group(comm, group)
  call MPI_Group_size(group, count)
  call check(count == ranks .and. group /= MPI_GROUP_EMPTY, "group")
  call MPI_Group_free(group)
  call MPI_Comm_free(comm)
  call check(deleted == 1007 .and. comm == MPI_COMM_NULL, "deletion")

  ! Truths, datatypes, memory of windows, files.
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., line)
  call MPI_Cart_get(line, 1, ring, periods, got)
  call check(periods(1) .and. ring(1) == ranks, "truths")
  call MPI_Comm_free(line)
  call MPI_Type_create_struct(2, [1, 1], [0_MPI_ADDRESS_KIND, 8_MPI_ADDRESS_KIND], [MPI_INTEGER, MPI_REAL8], pair)
  call MPI_Type_commit(pair)
  call MPI_Type_get_extent(pair, value, bytes)
  call check(value == 0 .and. bytes == 16, "datatype")
  call MPI_Type_free(pair)
  call MPI_Win_allocate(16_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, place, win)
  call c_f_pointer(place, memory, [2])
  memory = rank
  call MPI_Win_fence(0, win)
  call MPI_Put(real(rank, 8), 1, MPI_REAL8, next, 1_MPI_ADDRESS_KIND, 1, MPI_REAL8, win)
  call MPI_Win_fence(0, win)
  call check(nint(memory(1)) == rank .and. nint(memory(2)) == before, "window")
  call MPI_Win_free(win)
  call MPI_Info_create(info)
  call MPI_Info_set(info, "key", "some value")
  call MPI_File_open(MPI_COMM_WORLD, "eight.bin", ior(MPI_MODE_CREATE, MPI_MODE_RDWR), info, file)
  call MPI_File_write_at_all(file, int(4 * rank, MPI_OFFSET_KIND), rank, 1, MPI_INTEGER, status)
  call MPI_File_sync(file)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_File_read_at_all(file, int(4 * next, MPI_OFFSET_KIND), at, 1, MPI_INTEGER, MPI_STATUS_IGNORE)
  call check(at == next, "file")
  call MPI_File_close(file)
  call MPI_Info_free(info)
  call MPI_Buffer_attach(numbers, 0)
  call MPI_Buffer_detach(place, length)
  call check(length == 0 .and. MPI_Wtime() > 0, "buffer")
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

  logical function all_equal(one, other)
    integer, intent(in) :: one(:), other(:)
    all_equal = size(one) == size(other)
    if (all_equal) all_equal = .not. any(one /= other)
  end function
end program
