! Large counts where a procedure is taken or memory is given back; buffers of a communicator and of a session.
module procedures
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer(MPI_COUNT_KIND) :: converted = 0
contains
  subroutine first_not_zero(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(MPI_COUNT_KIND) :: len, at
    type(MPI_Datatype) :: datatype
    integer, pointer :: given(:), kept(:)
    if (datatype /= MPI_INTEGER) error stop "the operator's datatype"
    call c_f_pointer(invec, given, [len])
    call c_f_pointer(inoutvec, kept, [len])
    do at = 1, len
      if (given(at) /= 0) kept(at) = given(at)
    end do
  end subroutine

  subroutine extent_of(datatype, extent, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer(MPI_ADDRESS_KIND) :: extent, extra_state
    integer :: ierror
    ierror = MPI_ERR_TYPE
    if (datatype == MPI_INTEGER) ierror = MPI_SUCCESS
    extent = extra_state
  end subroutine

  ! Integers are kept in the file as their negatives.
  subroutine negate(from, to, count)
    type(c_ptr), value :: from, to
    integer(MPI_COUNT_KIND) :: count
    integer, pointer :: one(:), other(:)
    call c_f_pointer(from, one, [count])
    call c_f_pointer(to, other, [count])
    other = -one
    converted = converted + count
  end subroutine

  subroutine read_negated(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer(MPI_COUNT_KIND) :: count
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, position == 0 .and. extra_state == 4 .and. datatype == MPI_INTEGER)
    call negate(filebuf, userbuf, count)
  end subroutine

  subroutine write_negated(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra_state
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, position == 0 .and. extra_state == 4 .and. datatype == MPI_INTEGER)
    call negate(userbuf, filebuf, int(count, MPI_COUNT_KIND))
  end subroutine

  subroutine write_negated_c(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer(MPI_COUNT_KIND) :: count
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, position == 0 .and. extra_state == 4 .and. datatype == MPI_INTEGER)
    call negate(userbuf, filebuf, count)
  end subroutine
end module

program large
  use mpi_f08
  use procedures
  implicit none
  integer :: rank, ranks, error, small, combiner, integers(4), got(3)
  integer(MPI_COUNT_KIND) :: bytes, counts(4), many
  integer(MPI_ADDRESS_KIND) :: unit, extent, addresses(4)
  integer, pointer :: memory(:)
  character, target :: room(MPI_BSEND_OVERHEAD + 100)
  type(c_ptr) :: place
  type(MPI_Op) :: operator
  type(MPI_Win) :: win
  type(MPI_Datatype) :: vector, types(4)
  type(MPI_Session) :: session
  type(MPI_Request) :: request

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)

  ! Operators.
  call MPI_Op_create_c(first_not_zero, .true., operator)
  got = 0
  got(1) = merge(7, 0, rank == ranks - 1)
  call MPI_Allreduce(MPI_IN_PLACE, got, 3_MPI_COUNT_KIND, MPI_INTEGER, operator, MPI_COMM_WORLD)
  call check(all(got == [7, 0, 0]), "an operator of large counts")
  call MPI_Op_free(operator)

  ! Windows.
  call MPI_Win_allocate(16_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND, MPI_INFO_NULL, MPI_COMM_WORLD, place, win)
  call c_f_pointer(place, memory, [4])
  memory = rank
  call MPI_Win_fence(0, win)
  call MPI_Put(rank, 1_MPI_COUNT_KIND, MPI_INTEGER, mod(rank + 1, ranks), 3_MPI_ADDRESS_KIND, 1_MPI_COUNT_KIND, MPI_INTEGER, win)
  call MPI_Win_fence(0, win)
  call check(memory(4) == mod(rank + ranks - 1, ranks), "a window of large units")
  call MPI_Win_free(win)
  call MPI_Win_allocate_shared(8_MPI_ADDRESS_KIND, 2_MPI_ADDRESS_KIND, MPI_INFO_NULL, MPI_COMM_WORLD, place, win)
  call MPI_Win_shared_query(win, 0, extent, unit, place)
  call check(extent == 8 .and. unit == 2 .and. c_associated(place), "a shared window of large units")
  call PMPI_Win_shared_query(win, 0, extent, small, place)
  call check(extent == 8 .and. small == 2, "the same in small ones")
  call MPI_Win_free(win)

  ! Buffers.
  call MPI_Comm_attach_buffer(MPI_COMM_WORLD, room, size(room))
  call MPI_Isend(rank, 1, MPI_INTEGER, mod(rank + 1, ranks), 4, MPI_COMM_WORLD, request)
  call MPI_Bsend(rank, 1, MPI_INTEGER, mod(rank + 1, ranks), 5, MPI_COMM_WORLD)
  call MPI_Recv(got(1), 1, MPI_INTEGER, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Recv(got(2), 1, MPI_INTEGER, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_Comm_flush_buffer(MPI_COMM_WORLD)
  call MPI_Comm_detach_buffer(MPI_COMM_WORLD, place, bytes)
  call check(bytes == size(room) .and. c_associated(place, c_loc(room)) .and. got(1) == got(2), "the buffer of a communicator")
  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session)
  call MPI_Session_attach_buffer(session, room, size(room, kind=MPI_COUNT_KIND))
  call PMPI_Session_detach_buffer(session, place, small)
  call check(small == size(room) .and. c_associated(place, c_loc(room)), "the buffer of a session")
  call MPI_Session_finalize(session)
  call MPI_Buffer_attach(room, size(room, kind=MPI_COUNT_KIND))
  call MPI_Buffer_detach(place, bytes)
  call check(bytes == size(room) .and. c_associated(place, c_loc(room)), "the buffer of a process")

  ! What a datatype was made of.
  call MPI_Type_vector(3_MPI_COUNT_KIND, 2_MPI_COUNT_KIND, 5_MPI_COUNT_KIND, MPI_INTEGER, vector)
  call MPI_Type_get_envelope(vector, counts(1), counts(2), counts(3), counts(4), combiner)
  call check(combiner == MPI_COMBINER_VECTOR .and. all(counts == [0, 0, 3, 1]), "an envelope of large counts")
  call MPI_Type_get_contents(vector, 0_MPI_COUNT_KIND, 0_MPI_COUNT_KIND, 3_MPI_COUNT_KIND, 1_MPI_COUNT_KIND, integers, &
                             addresses, counts, types)
  call check(all(counts(:3) == [3, 2, 5]) .and. types(1) == MPI_INTEGER, "contents of large counts")
  call MPI_Type_free(vector)

  ! Representations of data in files.
  call MPI_Register_datarep("negated", MPI_CONVERSION_FN_NULL, write_negated, extent_of, 4_MPI_ADDRESS_KIND)
  call MPI_Register_datarep_c("negated both", read_negated, write_negated_c, extent_of, 4_MPI_ADDRESS_KIND)
  call MPI_Register_datarep("negated", MPI_CONVERSION_FN_NULL, write_negated, extent_of, 4_MPI_ADDRESS_KIND, error)
  call MPI_Error_class(error, small)
  call check(small == MPI_ERR_DUP_DATAREP, "a representation twice")
  call try_representation("negated", 1)
  call try_representation("negated both", -1)
  many = converted
  call check(many == 9, "conversions")

  ! Names that stand for others, sizes, and a view that begins where a stream is.
  call MPI_Sizeof(unit, small)
  call check(small == 8 .and. MPI_LONG_LONG_INT == MPI_LONG_LONG, "sizes and names")
  call MPI_Sizeof([1.0, 2.0], small)
  call check(small == 4 .and. PMPI_Wtick() > 0, "sizes of arrays")
  call try_stream()
  if (rank == 0) print '(a)', "all is well in Fortran"
  call MPI_Finalize()

contains
  ! Written in it, read in it and as it is.
  subroutine try_representation(name, sign)
    character(len=*), intent(in) :: name
    integer, intent(in) :: sign
    type(MPI_File) :: file
    integer :: given(3), read(3)
    type(MPI_Request) :: request
    given = [1, 2, 3]
    call MPI_File_open(MPI_COMM_SELF, "large.bin." // achar(iachar("0") + rank), &
                       ior(ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_MODE_DELETE_ON_CLOSE), MPI_INFO_NULL, file)
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, name, MPI_INFO_NULL)
    call MPI_File_write(file, given, 3, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_seek(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET)
    call MPI_File_iread(file, read, 3, MPI_INTEGER, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(read == -sign * given), name)
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, "native", MPI_INFO_NULL)
    call MPI_File_read(file, read, 3, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check(all(read == -given), name // ", as it is")
    call MPI_File_close(file)
  end subroutine

  subroutine try_stream()
    type(MPI_File) :: file
    character(len=9) :: name
    integer :: read, error
    name = "stream." // achar(iachar("0") + rank)
    call MPI_File_open(MPI_COMM_SELF, name, ior(MPI_MODE_CREATE, MPI_MODE_WRONLY), MPI_INFO_NULL, file)
    call MPI_File_write(file, [5, 6, 7], 3, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INTEGER, MPI_INTEGER, "native", MPI_INFO_NULL, error)
    call check(error /= MPI_SUCCESS, "where a file is no stream")
    call MPI_File_close(file)
    call MPI_File_open(MPI_COMM_SELF, name, ior(ior(MPI_MODE_SEQUENTIAL, MPI_MODE_RDONLY), MPI_MODE_DELETE_ON_CLOSE), &
                       MPI_INFO_NULL, file)
    call MPI_File_read_shared(file, read, 1, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INTEGER, MPI_INTEGER, "native", MPI_INFO_NULL)
    call MPI_File_read_shared(file, read, 1, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check(read == 6, "where a stream is")
    call MPI_File_close(file)
  end subroutine

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print '(a, i0, 2a)', "rank ", rank, ": wrong: ", what
      call MPI_Abort(MPI_COMM_WORLD, 1)
    end if
  end subroutine
end program
