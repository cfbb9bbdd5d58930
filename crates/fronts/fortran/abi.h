/* The C types and constants of the ABI that the Fortran layer is compiled for: the standard's, or
 * -DTUTTI_MPICH, -DTUTTI_OPENMPI for the fronts of those. Of handles nothing is used but that they are
 * passed on. */
#include <stdint.h>

#ifdef TUTTI_MPICH
typedef int MPI_Comm, MPI_Group, MPI_Datatype, MPI_Op, MPI_Request, MPI_Info, MPI_Errhandler, MPI_Win, MPI_Message, MPI_Session;
typedef void *MPI_File;
extern int *const MPI_UNWEIGHTED, *const MPI_WEIGHTS_EMPTY;
enum { STATUS_WORDS = 5 };
#define IN_PLACE ((void *)-1)
#define STATUS_IGNORE ((MPI_Status *)1)
enum { TAG_UB = 1681915905, HOST = 1681915907, IO = 1681915909, WTIME_IS_GLOBAL = 1681915911, UNIVERSE_SIZE = 1681915913, LAST_CODE = 1681915915, APPNUM = 1681915917 };
enum { WIN_SIZE = 1711276035, WIN_DISP_UNIT = 1711276037, WIN_FLAVOR = 1711276039, WIN_MODEL = 1711276041 };
enum { GRAPH = 1, CARTESIAN = 2, DIST_GRAPH = 3 };
/* Predefined keys are greater by one in Fortran. */
#define KEY(number) ((number) - (((number) & ~0xff) == 0x64400000 || ((number) & ~0xff) == 0x66000000 ? 1 - ((number) & 1) : 0))
#else
#define KEY(number) (number)
typedef void *MPI_Comm, *MPI_Group, *MPI_Datatype, *MPI_Op, *MPI_Request, *MPI_Info, *MPI_Errhandler, *MPI_Win, *MPI_Message, *MPI_Session, *MPI_File;
#define STATUS_IGNORE ((MPI_Status *)0)
#define IN_PLACE ((void *)1)
#ifdef TUTTI_OPENMPI
#define MPI_UNWEIGHTED ((int *)2)
#define MPI_WEIGHTS_EMPTY ((int *)3)
enum { STATUS_WORDS = 6 };
enum { TAG_UB = 0, HOST, IO, WTIME_IS_GLOBAL, APPNUM, LAST_CODE, UNIVERSE_SIZE };
enum { WIN_SIZE = 8, WIN_DISP_UNIT, WIN_FLAVOR, WIN_MODEL };
enum { CARTESIAN = 1, GRAPH = 2, DIST_GRAPH = 3 };
#else
#define MPI_UNWEIGHTED ((int *)10)
#define MPI_WEIGHTS_EMPTY ((int *)11)
enum { STATUS_WORDS = 8 };
enum { TAG_UB = 501, IO, HOST, WTIME_IS_GLOBAL, APPNUM, LAST_CODE, UNIVERSE_SIZE };
enum { WIN_DISP_UNIT = 602, WIN_SIZE, WIN_FLAVOR, WIN_MODEL };
enum { CARTESIAN = 211, GRAPH, DIST_GRAPH };
#endif
#endif

typedef struct MPI_Status MPI_Status;
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count, MPI_Offset;
typedef int integer;

/* Functions of the program: addresses, which are called where their meaning is known. */
typedef void MPI_User_function, MPI_User_function_c, MPI_Copy_function, MPI_Delete_function,
    MPI_Grequest_query_function, MPI_Grequest_free_function, MPI_Grequest_cancel_function,
    MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_Type_copy_attr_function,
    MPI_Type_delete_attr_function, MPI_Win_copy_attr_function, MPI_Win_delete_attr_function, MPI_Datarep_extent_function,
    MPI_Datarep_conversion_function, MPI_Datarep_conversion_function_c, MPI_Comm_errhandler_function,
    MPI_File_errhandler_function, MPI_Win_errhandler_function, MPI_Session_errhandler_function;

/* Handles as integers of Fortran, in both directions. */
#define INTEGERS(kind, type) \
    int PMPI_##kind##_toint(type handle); \
    type PMPI_##kind##_fromint(int number);
INTEGERS(Comm, MPI_Comm)
INTEGERS(Group, MPI_Group)
INTEGERS(Type, MPI_Datatype)
INTEGERS(Op, MPI_Op)
INTEGERS(Request, MPI_Request)
INTEGERS(Info, MPI_Info)
INTEGERS(Errhandler, MPI_Errhandler)
INTEGERS(Win, MPI_Win)
INTEGERS(File, MPI_File)
INTEGERS(Message, MPI_Message)
INTEGERS(Session, MPI_Session)
#define C(kind, number) PMPI_##kind##_fromint(number)
#define F(kind, handle) PMPI_##kind##_toint(handle)
