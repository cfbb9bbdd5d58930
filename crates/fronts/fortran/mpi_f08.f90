! The module mpi_f08: types and constants of Fortran 2008 for MPI, and interfaces of the subroutines of the
! Fortran 77 layer. What the tables of spec/ tell is in generated/; here is the rest: statuses, callbacks,
! subroutines that differ from C.
module mpi_f08
  use, intrinsic :: iso_c_binding, only: c_int, c_ptr
  implicit none
  private :: c_int, c_ptr

  integer, parameter :: MPI_ADDRESS_KIND = 8, MPI_OFFSET_KIND = 8, MPI_COUNT_KIND = 8, MPI_INTEGER_KIND = 4
  integer, parameter :: MPI_STATUS_SIZE = 8
  ! Where the fields are in the status of mpif.h.
  integer, parameter :: MPI_SOURCE = 1, MPI_TAG = 2, MPI_ERROR = 3
  ! Arrays are passed as they are: a section that does not lie together is copied by the compiler.
  logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .false., MPI_ASYNC_PROTECTS_NONBLOCKING = .false.

  type, bind(C) :: MPI_Status
    integer(c_int) :: MPI_SOURCE, MPI_TAG, MPI_ERROR
    integer(c_int) :: internal(5)
  end type

  include 'f08_types.inc'

  ! Names in place of data: the layer knows their addresses.
  integer :: MPI_BOTTOM, MPI_IN_PLACE, MPI_BUFFER_AUTOMATIC
  integer :: MPI_UNWEIGHTED(1), MPI_WEIGHTS_EMPTY(1), MPI_ERRCODES_IGNORE(1)
  type(MPI_Status) :: MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE(1)
  character(len=1) :: MPI_ARGV_NULL(1), MPI_ARGVS_NULL(1, 1)
  common /mpi_fortran_bottom/ MPI_BOTTOM
  common /mpi_fortran_in_place/ MPI_IN_PLACE
  common /mpi_fortran_buffer_automatic/ MPI_BUFFER_AUTOMATIC
  common /mpi_fortran_unweighted/ MPI_UNWEIGHTED
  common /mpi_fortran_weights_empty/ MPI_WEIGHTS_EMPTY
  common /mpi_fortran_errcodes_ignore/ MPI_ERRCODES_IGNORE
  common /mpi_fortran_status_ignore/ MPI_STATUS_IGNORE
  common /mpi_fortran_statuses_ignore/ MPI_STATUSES_IGNORE
  common /mpi_fortran_argv_null/ MPI_ARGV_NULL
  common /mpi_fortran_argvs_null/ MPI_ARGVS_NULL

  abstract interface
    subroutine MPI_User_function(invec, inoutvec, len, datatype)
      import
      type(c_ptr), value :: invec, inoutvec
      integer :: len
      type(MPI_Datatype) :: datatype
    end subroutine
    subroutine MPI_User_function_c(invec, inoutvec, len, datatype)
      import
      type(c_ptr), value :: invec, inoutvec
      integer(MPI_COUNT_KIND) :: len
      type(MPI_Datatype) :: datatype
    end subroutine
    subroutine MPI_Datarep_extent_function(datatype, extent, extra_state, ierror)
      import
      type(MPI_Datatype) :: datatype
      integer(MPI_ADDRESS_KIND) :: extent, extra_state
      integer :: ierror
    end subroutine
    subroutine MPI_Datarep_conversion_function(userbuf, datatype, count, filebuf, position, extra_state, ierror)
      import
      type(c_ptr), value :: userbuf, filebuf
      type(MPI_Datatype) :: datatype
      integer :: count, ierror
      integer(MPI_OFFSET_KIND) :: position
      integer(MPI_ADDRESS_KIND) :: extra_state
    end subroutine
    subroutine MPI_Datarep_conversion_function_c(userbuf, datatype, count, filebuf, position, extra_state, ierror)
      import
      type(c_ptr), value :: userbuf, filebuf
      type(MPI_Datatype) :: datatype
      integer(MPI_COUNT_KIND) :: count
      integer(MPI_OFFSET_KIND) :: position
      integer(MPI_ADDRESS_KIND) :: extra_state
      integer :: ierror
    end subroutine
    subroutine MPI_Comm_copy_attr_function(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
      import
      type(MPI_Comm) :: oldcomm
      integer :: comm_keyval, ierror
      integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      logical :: flag
    end subroutine
    subroutine MPI_Comm_delete_attr_function(comm, comm_keyval, attribute_val, extra_state, ierror)
      import
      type(MPI_Comm) :: comm
      integer :: comm_keyval, ierror
      integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    end subroutine
    subroutine MPI_Type_copy_attr_function(oldtype, type_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
      import
      type(MPI_Datatype) :: oldtype
      integer :: type_keyval, ierror
      integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      logical :: flag
    end subroutine
    subroutine MPI_Type_delete_attr_function(datatype, type_keyval, attribute_val, extra_state, ierror)
      import
      type(MPI_Datatype) :: datatype
      integer :: type_keyval, ierror
      integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    end subroutine
    subroutine MPI_Win_copy_attr_function(oldwin, win_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
      import
      type(MPI_Win) :: oldwin
      integer :: win_keyval, ierror
      integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      logical :: flag
    end subroutine
    subroutine MPI_Win_delete_attr_function(win, win_keyval, attribute_val, extra_state, ierror)
      import
      type(MPI_Win) :: win
      integer :: win_keyval, ierror
      integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    end subroutine
    subroutine MPI_Comm_errhandler_function(comm, error_code)
      import
      type(MPI_Comm) :: comm
      integer :: error_code
    end subroutine
    subroutine MPI_Win_errhandler_function(win, error_code)
      import
      type(MPI_Win) :: win
      integer :: error_code
    end subroutine
    subroutine MPI_File_errhandler_function(file, error_code)
      import
      type(MPI_File) :: file
      integer :: error_code
    end subroutine
    subroutine MPI_Session_errhandler_function(session, error_code)
      import
      type(MPI_Session) :: session
      integer :: error_code
    end subroutine
    subroutine MPI_Grequest_query_function(extra_state, status, ierror)
      import
      integer(MPI_ADDRESS_KIND) :: extra_state
      type(MPI_Status) :: status
      integer :: ierror
    end subroutine
    subroutine MPI_Grequest_free_function(extra_state, ierror)
      import
      integer(MPI_ADDRESS_KIND) :: extra_state
      integer :: ierror
    end subroutine
    subroutine MPI_Grequest_cancel_function(extra_state, complete, ierror)
      import
      integer(MPI_ADDRESS_KIND) :: extra_state
      logical :: complete
      integer :: ierror
    end subroutine
  end interface

  procedure(MPI_Comm_copy_attr_function) :: MPI_COMM_NULL_COPY_FN, MPI_COMM_DUP_FN
  procedure(MPI_Comm_delete_attr_function) :: MPI_COMM_NULL_DELETE_FN
  procedure(MPI_Type_copy_attr_function) :: MPI_TYPE_NULL_COPY_FN, MPI_TYPE_DUP_FN
  procedure(MPI_Type_delete_attr_function) :: MPI_TYPE_NULL_DELETE_FN
  procedure(MPI_Win_copy_attr_function) :: MPI_WIN_NULL_COPY_FN, MPI_WIN_DUP_FN
  procedure(MPI_Win_delete_attr_function) :: MPI_WIN_NULL_DELETE_FN
  procedure(MPI_Datarep_conversion_function) :: MPI_CONVERSION_FN_NULL
  procedure(MPI_Datarep_conversion_function_c) :: MPI_CONVERSION_FN_NULL_C

  interface
    subroutine MPI_Init(ierror)
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Init_thread(required, provided, ierror)
      integer, intent(in) :: required
      integer, intent(out) :: provided
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Pcontrol(level, ierror)
      integer, intent(in) :: level
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Get_address(location, address, ierror)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: location
      !DIR$ IGNORE_TKR location
      !$PRAGMA IGNORE_TKR location
      type(*), dimension(*), target :: location
      integer(MPI_ADDRESS_KIND), intent(out) :: address
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Comm_spawn(command, argv, maxprocs, info, root, comm, intercomm, array_of_errcodes, ierror)
      import
      character(len=*), intent(in) :: command, argv(*)
      integer, intent(in) :: maxprocs, root
      type(MPI_Info), intent(in) :: info
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Comm), intent(out) :: intercomm
      integer :: array_of_errcodes(*)
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Comm_spawn_multiple(count, array_of_commands, array_of_argv, array_of_maxprocs, array_of_info, root, comm, &
        intercomm, array_of_errcodes, ierror)
      import
      integer, intent(in) :: count, array_of_maxprocs(*), root
      character(len=*), intent(in) :: array_of_commands(*), array_of_argv(count, *)
      type(MPI_Info), intent(in) :: array_of_info(*)
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Comm), intent(out) :: intercomm
      integer :: array_of_errcodes(*)
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Info_create_env(info, ierror)
      import
      type(MPI_Info), intent(out) :: info
      integer, optional, intent(out) :: ierror
    end subroutine
    double precision function MPI_Wtime()
    end function
    double precision function MPI_Wtick()
    end function
    integer(MPI_ADDRESS_KIND) function MPI_Aint_add(base, disp)
      import
      integer(MPI_ADDRESS_KIND), intent(in) :: base, disp
    end function
    integer(MPI_ADDRESS_KIND) function MPI_Aint_diff(addr1, addr2)
      import
      integer(MPI_ADDRESS_KIND), intent(in) :: addr1, addr2
    end function
  end interface

  procedure(MPI_Init) :: PMPI_Init
  procedure(MPI_Init_thread) :: PMPI_Init_thread
  procedure(MPI_Pcontrol) :: PMPI_Pcontrol
  procedure(MPI_Get_address) :: PMPI_Get_address
  procedure(MPI_Comm_spawn) :: PMPI_Comm_spawn
  procedure(MPI_Comm_spawn_multiple) :: PMPI_Comm_spawn_multiple
  procedure(MPI_Info_create_env) :: PMPI_Info_create_env
  procedure(MPI_Wtime) :: PMPI_Wtime
  procedure(MPI_Wtick) :: PMPI_Wtick
  procedure(MPI_Aint_add) :: PMPI_Aint_add
  procedure(MPI_Aint_diff) :: PMPI_Aint_diff

  include 'f08_interfaces.inc'
  include 'sizeof_interface.inc'
  include 'f08_operators.inc'
  include 'sizeof.inc'

  ! A status in the form of mpif.h and back (MPI-5 section 19.3.5).
  subroutine MPI_Status_f082f(f08_status, f_status, ierror)
    type(MPI_Status), intent(in) :: f08_status
    integer, intent(out) :: f_status(MPI_STATUS_SIZE)
    integer, optional, intent(out) :: ierror
    f_status(:3) = [f08_status%MPI_SOURCE, f08_status%MPI_TAG, f08_status%MPI_ERROR]
    f_status(4:) = f08_status%internal
    if (present(ierror)) ierror = MPI_SUCCESS
  end subroutine

  subroutine MPI_Status_f2f08(f_status, f08_status, ierror)
    integer, intent(in) :: f_status(MPI_STATUS_SIZE)
    type(MPI_Status), intent(out) :: f08_status
    integer, optional, intent(out) :: ierror
    f08_status = MPI_Status(f_status(1), f_status(2), f_status(3), f_status(4:))
    if (present(ierror)) ierror = MPI_SUCCESS
  end subroutine
end module
