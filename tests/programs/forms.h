/* One collective in its three forms: 0 blocking, 1 non-blocking, 2 persistent (started twice). */
#ifndef TUTTI_TEST_FORMS_H
#define TUTTI_TEST_FORMS_H

enum { FORMS = 3 };

#define RUN(form, Blocking, Immediate, ...)                                                              \
    do {                                                                                                 \
        MPI_Request request_ = MPI_REQUEST_NULL;                                                         \
        if ((form) == 0) {                                                                               \
            CHECK_EQUAL(MPI_##Blocking(__VA_ARGS__), MPI_SUCCESS);                                       \
        } else if ((form) == 1) {                                                                        \
            CHECK_EQUAL(MPI_##Immediate(__VA_ARGS__, &request_), MPI_SUCCESS);                           \
            CHECK_EQUAL(MPI_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);                            \
            CHECK(request_ == MPI_REQUEST_NULL);                                                         \
        } else {                                                                                         \
            CHECK_EQUAL(MPI_##Blocking##_init(__VA_ARGS__, MPI_INFO_NULL, &request_), MPI_SUCCESS);      \
            CHECK_EQUAL(MPI_Start(&request_), MPI_SUCCESS);                                              \
            CHECK_EQUAL(MPI_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);                            \
            CHECK(request_ != MPI_REQUEST_NULL);                                                         \
            MPI_Request_free(&request_);                                                                 \
        }                                                                                                \
    } while (0)

#endif
