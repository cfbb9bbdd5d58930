! What programs with the module mpi do: data of any type and rank, windows, files, large addresses.
program main
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, ranks, ierr, win, file, i, n
  integer :: status(MPI_STATUS_SIZE)
  real(8) :: matrix(3, 3), sums(3, 3), one
  complex(8) :: wave, total
  character(len=12) :: word
  integer, pointer :: shared(:)
  type(c_ptr) :: place
  integer(MPI_ADDRESS_KIND) :: bytes
  integer(MPI_OFFSET_KIND) :: offset
  character(len=40) :: path

  call MPI_Init_thread(MPI_THREAD_FUNNELED, n, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  matrix = rank + 0.5d0
  call MPI_Allreduce(matrix, sums, 9, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(all(sums == ranks*(ranks - 1)/2 + 0.5d0*ranks), 'matrix')
  wave = (1d0, 2d0)
  call MPI_Reduce(wave, total, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) call check(total == ranks*(1d0, 2d0), 'complex')
  word = 'nobody'
  if (rank == 0) word = 'everybody'
  call MPI_Bcast(word, len(word), MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)
  call check(word == 'everybody', 'characters')
  one = 1
  call MPI_Sendrecv_replace(one, 1, MPI_REAL8, rank, 1, rank, 1, MPI_COMM_WORLD, status, ierr)

  bytes = 16
  call MPI_Win_allocate_shared(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, place, win, ierr)
  call c_f_pointer(place, shared, [4])
  call MPI_Win_fence(0, win, ierr)
  n = 100 + rank
  offset = 0
  call MPI_Put(n, 1, MPI_INTEGER, mod(rank + 1, ranks), offset, 1, MPI_INTEGER, win, ierr)
  call MPI_Win_fence(0, win, ierr)
  call check(shared(1) == 100 + mod(rank + ranks - 1, ranks), 'window')
  call MPI_Win_free(win, ierr)
  call check(win == MPI_WIN_NULL, 'null window')

  path = 'ninety.data'
  call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, ierr)
  call check(ierr == MPI_SUCCESS, 'open')
  offset = 4*rank
  call MPI_File_write_at_all(file, offset, n, 1, MPI_INTEGER, status, ierr)
  offset = 4*mod(rank + 1, ranks)
  call MPI_File_sync(file, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_read_at_all(file, offset, i, 1, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call check(i == 100 + mod(rank + 1, ranks), 'file')
  call MPI_File_close(file, ierr)
  call check(MPI_Wtime() > 0, 'time')
  if (rank == 0) print *, 'all is well in Fortran 90'
  call MPI_Finalize(ierr)
contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print *, 'wrong: ', what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end if
  end subroutine
end program
