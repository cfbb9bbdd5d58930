C     What Fortran 77 programs do: constants, strings, LOGICAL, sentinels, callbacks, attributes.
      program main
      implicit none
      include 'mpif.h'
      integer rank, ranks, ierr, sum, i, n, op, errh, keyval
      integer status(MPI_STATUS_SIZE), request(2), values(4), got(4)
      integer statuses(MPI_STATUS_SIZE, 2), index, cart, dims(2), info
      integer dup, column, matrix(3, 4), types(2), lengths(2), outcount
      integer indices(2)
      integer(kind=MPI_ADDRESS_KIND) upper, extra, places(2), attribute
      logical flag, periods(2), remain(2)
      character*(MPI_MAX_PROCESSOR_NAME) name
      character*20 text
      external largest, failed, copied, deleted
      integer calls
      common /counts/ calls

      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
      call MPI_INITIALIZED(flag, ierr)
      call check(flag, 'initialized')

      sum = rank
      call MPI_ALLREDUCE(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM,
     &                   MPI_COMM_WORLD, ierr)
      call check(sum .eq. ranks*(ranks-1)/2, 'in place')

      do i = 1, 4
        values(i) = 10*rank + i
      end do
      call MPI_ISEND(values, 4, MPI_INTEGER, mod(rank+1, ranks), 7,
     &               MPI_COMM_WORLD, request(1), ierr)
      call MPI_IRECV(got, 4, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG,
     &               MPI_COMM_WORLD, request(2), ierr)
      call MPI_WAITALL(2, request, statuses, ierr)
      call check(statuses(MPI_SOURCE, 2) .eq. mod(rank+ranks-1, ranks),
     &           'source')
      call check(statuses(MPI_TAG, 2) .eq. 7, 'tag')
      call MPI_GET_COUNT(statuses(1, 2), MPI_INTEGER, n, ierr)
      call check(n .eq. 4, 'count')
      call check(got(4) .eq. 10*mod(rank+ranks-1, ranks) + 4, 'data')
      call check(request(2) .eq. MPI_REQUEST_NULL, 'null request')

      call MPI_ISEND(values, 1, MPI_INTEGER, rank, 1, MPI_COMM_WORLD,
     &               request(1), ierr)
      call MPI_RECV(got, 1, MPI_INTEGER, rank, 1, MPI_COMM_WORLD,
     &              MPI_STATUS_IGNORE, ierr)
      request(2) = MPI_REQUEST_NULL
      call MPI_WAITANY(2, request, index, status, ierr)
      call check(index .eq. 1, 'index from 1')
      call MPI_WAITSOME(2, request, outcount, indices,
     &                  MPI_STATUSES_IGNORE, ierr)
      call check(outcount .eq. MPI_UNDEFINED, 'undefined')

      name = ' '
      call MPI_GET_PROCESSOR_NAME(name, n, ierr)
      call check(n .gt. 0 .and. name(n+1:) .eq. ' ', 'padding')
      call MPI_INFO_CREATE(info, ierr)
      call MPI_INFO_SET(info, ' key ', 'some value  ', ierr)
      call MPI_INFO_GET(info, 'key', 20, text, flag, ierr)
      call check(flag .and. text .eq. 'some value', 'info')
      call MPI_INFO_GET(info, 'other', 20, text, flag, ierr)
      call check(.not. flag, 'no info')
      call MPI_INFO_FREE(info, ierr)
      call check(info .eq. MPI_INFO_NULL, 'null info')

      call MPI_OP_CREATE(largest, .true., op, ierr)
      call MPI_ALLREDUCE(values, got, 4, MPI_INTEGER, op,
     &                   MPI_COMM_WORLD, ierr)
      call check(got(2) .eq. 10*(ranks-1) + 2, 'own operator')
      call MPI_OP_FREE(op, ierr)

      call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_TAG_UB, upper, flag,
     &                       ierr)
      call check(flag .and. upper .ge. 32767, 'MPI_TAG_UB')
      calls = 0
      extra = 5
      call MPI_COMM_CREATE_KEYVAL(copied, deleted, keyval, extra, ierr)
      attribute = 40
      call MPI_COMM_SET_ATTR(MPI_COMM_WORLD, keyval, attribute, ierr)
      call MPI_COMM_DUP(MPI_COMM_WORLD, dup, ierr)
      call MPI_COMM_GET_ATTR(dup, keyval, attribute, flag, ierr)
      call check(flag .and. attribute .eq. 45, 'copied attribute')

      call MPI_COMM_CREATE_ERRHANDLER(failed, errh, ierr)
      call MPI_COMM_SET_ERRHANDLER(dup, errh, ierr)
      call MPI_SEND(values, 1, MPI_INTEGER, ranks, 0, dup, ierr)
      call check(ierr .ne. MPI_SUCCESS, 'error code')
      call check(calls .eq. 100, 'error handler')
      call MPI_COMM_FREE(dup, ierr)
      call check(calls .eq. 101 .and. dup .eq. MPI_COMM_NULL,
     &           'deleted attribute')

      dims(1) = 0
      dims(2) = 1
      call MPI_DIMS_CREATE(ranks, 2, dims, ierr)
      periods(1) = .true.
      periods(2) = .false.
      call MPI_CART_CREATE(MPI_COMM_WORLD, 2, dims, periods, .false.,
     &                     cart, ierr)
      periods(1) = .false.
      call MPI_CART_GET(cart, 2, dims, periods, got, ierr)
      call check(periods(1) .and. .not. periods(2), 'periods')
      remain(1) = .true.
      remain(2) = .false.
      call MPI_CART_SUB(cart, remain, dup, ierr)
      call MPI_COMM_SIZE(dup, n, ierr)
      call check(n .eq. ranks, 'cart sub')

      do i = 1, 12
        matrix(mod(i-1, 3)+1, (i-1)/3+1) = i
      end do
      call MPI_TYPE_VECTOR(4, 1, 3, MPI_INTEGER, column, ierr)
      call MPI_TYPE_COMMIT(column, ierr)
      call MPI_SENDRECV(matrix(2, 1), 1, column, rank, 3, got, 4,
     &                  MPI_INTEGER, rank, 3, MPI_COMM_WORLD,
     &                  status, ierr)
      call check(got(1) .eq. 2 .and. got(4) .eq. 11, 'row')
      types(1) = MPI_INTEGER
      types(2) = MPI_INTEGER
      lengths(1) = 1
      lengths(2) = 1
      call MPI_GET_ADDRESS(values(3), places(1), ierr)
      call MPI_GET_ADDRESS(values(1), places(2), ierr)
      call MPI_TYPE_CREATE_STRUCT(2, lengths, places, types, n, ierr)
      call MPI_TYPE_COMMIT(n, ierr)
      call MPI_SENDRECV(MPI_BOTTOM, 1, n, rank, 4, got, 2,
     &                  MPI_INTEGER, rank, 4, MPI_COMM_WORLD,
     &                  MPI_STATUS_IGNORE, ierr)
      call check(got(1) .eq. 10*rank + 3, 'MPI_BOTTOM')
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      if (rank .eq. 0) print *, 'all is well in Fortran 77'
      call MPI_FINALIZE(ierr)
      end

      subroutine check(holds, what)
      logical holds
      character*(*) what
      include 'mpif.h'
      integer ierr
      if (.not. holds) then
        print *, 'wrong: ', what
        call MPI_ABORT(MPI_COMM_WORLD, 1, ierr)
      end if
      end

      subroutine largest(in, inout, n, datatype)
      integer n, in(n), inout(n), datatype, i
      include 'mpif.h'
      if (datatype .ne. MPI_INTEGER) return
      do i = 1, n
        inout(i) = max(in(i), inout(i))
      end do
      end

      subroutine failed(comm, code)
      integer comm, code, calls
      common /counts/ calls
      calls = calls + 100
      end

      subroutine copied(comm, keyval, extra, in, out, flag, ierr)
      include 'mpif.h'
      integer comm, keyval, ierr
      integer(kind=MPI_ADDRESS_KIND) extra, in, out
      logical flag
      out = in + extra
      flag = .true.
      ierr = MPI_SUCCESS
      end

      subroutine deleted(comm, keyval, value, extra, ierr)
      include 'mpif.h'
      integer comm, keyval, ierr, calls
      integer(kind=MPI_ADDRESS_KIND) value, extra
      common /counts/ calls
      calls = calls + 1
      ierr = MPI_SUCCESS
      end
