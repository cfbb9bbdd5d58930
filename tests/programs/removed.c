/* A program of MPI-1, by functions that MPI 3.0 has removed: compiled with mpicc -removed. */
#include "check.h"

static int handled;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    handled++;
}

struct item {
    char letter;
    double number;
    int count;
};

static void structs(void)
{
    struct item out[3] = {{'a', 1.5, 1}, {'b', 2.5, 2}, {'c', 3.5, 3}}, in[3];
    int lengths[4] = {1, 1, 1, 1};
    MPI_Aint places[4], base, extent, lb, ub;
    MPI_Datatype types[4] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_UB}, type;
    MPI_Request request;
    MPI_Address(&out[0], &base);
    MPI_Address(&out[0].letter, &places[0]);
    MPI_Address(&out[0].number, &places[1]);
    MPI_Address(&out[0].count, &places[2]);
    MPI_Address(&out[1], &places[3]);
    for (int i = 0; i < 4; i++) places[i] -= base;
    MPI_Type_struct(4, lengths, places, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_extent(type, &extent);
    MPI_Type_lb(type, &lb);
    MPI_Type_ub(type, &ub);
    CHECK_EQUAL(extent, sizeof(struct item));
    CHECK_EQUAL(lb, 0);
    CHECK_EQUAL(ub, sizeof(struct item));
    memset(in, 0, sizeof in);
    MPI_Irecv(in, 3, type, check_rank, 1, MPI_COMM_WORLD, &request);
    MPI_Send(out, 3, type, check_rank, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++)
        CHECK(in[i].letter == out[i].letter && in[i].number == out[i].number && in[i].count == out[i].count);
    MPI_Type_free(&type);
}

static void bounds(void)
{
    int lengths[4] = {1, 1, 2, 1}, class;
    MPI_Aint places[4] = {-8, 40, 0, 100}, extent, lb, ub;
    MPI_Datatype types[4] = {MPI_LB, MPI_UB, MPI_INT, MPI_UB}, type;
    MPI_Type_struct(3, lengths, places, types, &type);
    MPI_Type_lb(type, &lb);
    MPI_Type_ub(type, &ub);
    MPI_Type_extent(type, &extent);
    CHECK(lb == -8 && ub == 40 && extent == 48);
    MPI_Type_free(&type);
    /* The highest of several; those without length do not count. */
    lengths[0] = 0;
    MPI_Type_struct(4, lengths, places, types, &type);
    MPI_Type_lb(type, &lb);
    MPI_Type_ub(type, &ub);
    CHECK(lb == 0 && ub == 100);
    MPI_Type_free(&type);
    MPI_Type_struct(0, lengths, places, types, &type);
    MPI_Type_free(&type);
    /* Mistakes are those of the successor. */
    MPI_Error_class(MPI_Type_create_struct(-1, lengths, places, types, &type), &class);
    CHECK_CLASS(MPI_Type_struct(-1, lengths, places, types, &type), class);
    CHECK(class != MPI_SUCCESS);
    CHECK_CLASS(MPI_Type_contiguous(2, MPI_LB, &type), MPI_ERR_TYPE);
}

static void vectors(void)
{
    int lengths[2] = {1, 2}, combiner, integers, addresses, types;
    MPI_Aint places[2] = {16, 0}, extent;
    MPI_Datatype type;
    MPI_Type_hvector(3, 1, 10, MPI_SHORT, &type);
    MPI_Type_extent(type, &extent);
    CHECK_EQUAL(extent, 22);
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    CHECK_EQUAL(combiner, MPI_COMBINER_HVECTOR);
    switch (combiner) {
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HVECTOR_INTEGER: break;
    case MPI_COMBINER_HINDEXED_INTEGER:
    case MPI_COMBINER_STRUCT_INTEGER:
    default: CHECK(!"a combiner of a vector");
    }
    MPI_Type_free(&type);
    MPI_Type_hindexed(2, lengths, places, MPI_INT, &type);
    MPI_Type_extent(type, &extent);
    CHECK_EQUAL(extent, 20);
    MPI_Type_free(&type);
}

static void handlers(void)
{
    MPI_Handler_function *function = handler;
    MPI_Errhandler made, got;
    int keyval, value = 7, *found, flag;
    MPI_Errhandler_create(function, &made);
    MPI_Errhandler_set(MPI_COMM_WORLD, made);
    MPI_Errhandler_get(MPI_COMM_WORLD, &got);
    MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    CHECK_EQUAL(handled, 1);
    MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&made);
    /* Deprecated, not removed. */
    MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &keyval, NULL);
    MPI_Attr_put(MPI_COMM_WORLD, keyval, &value);
    MPI_Attr_get(MPI_COMM_WORLD, keyval, &found, &flag);
    CHECK(flag && found == &value);
    MPI_Attr_delete(MPI_COMM_WORLD, keyval);
    MPI_Keyval_free(&keyval);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    structs();
    vectors();
    handlers();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    bounds();
    return check_end();
}
