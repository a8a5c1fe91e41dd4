// What the HDF5 library can do and a checkpoint must not contain.

#include "checkpoint/hdf5_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/hdf5_types.h"

namespace zero::checkpoint {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Hdf5Check : public ::testing::Test {
 protected:
  Hdf5Check() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            (std::string("hdf5_check_") + test->name() + std::to_string(::getpid()) + ".h5");
    file_ = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  }
  ~Hdf5Check() override { std::filesystem::remove(path_); }

  /// Adds /d, 100 numbers of 8 bytes, in the way of `creation`, and the manifest's idea of it.
  void add(const char* name, hid_t creation = H5P_DEFAULT) {
    const hsize_t shape[] = {100};
    const hid_t space = H5Screate_simple(1, shape, nullptr);
    const std::vector<std::int64_t> values(100, 3);
    const hid_t dataset =
        H5Dcreate2(file_, name, H5T_STD_I64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    ASSERT_GE(dataset, 0);
    ASSERT_GE(H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    const haddr_t offset = H5Dget_offset(dataset);
    record_.datasets.push_back(
        {name, ElementType::of(DType::kInt64), {100}, offset == HADDR_UNDEF ? 0 : offset, 800, {}});
    H5Dclose(dataset);
    H5Sclose(space);
  }
  std::vector<std::string> differences() {
    if (file_ >= 0) H5Fclose(file_);
    file_ = -1;
    const auto files = on_disk();
    return hdf5::check_structure(*files->open(path_.string()), record_, {});
  }

  std::filesystem::path path_;
  hid_t file_ = -1;
  FileRecord record_;
};

TEST_F(Hdf5Check, APlainFileIsAccepted) {
  add("/d");
  EXPECT_THAT(differences(), IsEmpty());
}

TEST_F(Hdf5Check, AnotherOffsetTypeOrShapeIsFound) {
  add("/d");
  record_.datasets[0].offset += 8;
  EXPECT_THAT(differences(), Contains(HasSubstr("offset")));
  record_.datasets[0].offset -= 8;
  record_.datasets[0].type = ElementType::float64();
  EXPECT_THAT(differences(), Contains(HasSubstr("type")));
  record_.datasets[0].type = ElementType::of(DType::kInt64);
  record_.datasets[0].shape = {50, 2};
  EXPECT_THAT(differences(), Contains(HasSubstr("shape")));
}

TEST_F(Hdf5Check, ADatasetTooManyOrTooFewIsFound) {
  add("/d");
  add("/e");
  const DatasetRecord extra = record_.datasets[1];
  record_.datasets.pop_back();
  EXPECT_THAT(differences(), Contains(HasSubstr("does not list")));
  record_.datasets = {record_.datasets[0], extra, extra};
  record_.datasets[2].name = "/f";
  EXPECT_THAT(differences(), Contains(HasSubstr("missing")));
}

TEST_F(Hdf5Check, ChunksAndFiltersAreFound) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[] = {10};
  H5Pset_chunk(creation, 1, chunk);
  H5Pset_fletcher32(creation);
  add("/d", creation);
  H5Pclose(creation);
  EXPECT_THAT(differences(), Contains(HasSubstr("not contiguous")));
}

TEST_F(Hdf5Check, ExternalStorageIsFound) {
  const std::string other = path_.string() + ".raw";
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(creation, other.c_str(), 0, 800);
  add("/d", creation);
  H5Pclose(creation);
  EXPECT_THAT(differences(), Contains(HasSubstr("other files")));
  std::filesystem::remove(other);
}

TEST_F(Hdf5Check, SoftAndExternalLinksAreFoundAndNotFollowed) {
  add("/d");
  H5Lcreate_soft("/d", file_, "soft", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("/etc/passwd", "/x", file_, "external", H5P_DEFAULT, H5P_DEFAULT);
  const auto found = differences();
  EXPECT_THAT(found, Contains("/soft: it is no hard link"));
  EXPECT_THAT(found, Contains("/external: it is no hard link"));
}

TEST_F(Hdf5Check, ALoopOfGroupsEnds) {
  const hid_t group = H5Gcreate2(file_, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file_, "/", group, "up", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(group);
  EXPECT_THAT(differences(), Contains(HasSubstr("nested too deeply")));
}

TEST_F(Hdf5Check, AFewGroupsThatLookLikeVeryManyEndSoon) {
  const hid_t group = H5Gcreate2(file_, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  for (int i = 0; i < 50; ++i) {
    H5Lcreate_hard(file_, "/", group, std::to_string(i).c_str(), H5P_DEFAULT, H5P_DEFAULT);
  }
  H5Gclose(group);
  EXPECT_THAT(differences(), Contains(HasSubstr("more differences")));
}

TEST_F(Hdf5Check, ATypeThatHasANameIsFound) {
  const hid_t type = H5Tcopy(H5T_STD_I64LE);
  H5Tcommit2(file_, "t", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Tclose(type);
  EXPECT_THAT(differences(), Contains(HasSubstr("neither group nor dataset")));
}

TEST_F(Hdf5Check, WhatIsNoHdf5FileIsFound) {
  add("/d");
  differences();
  std::filesystem::resize_file(path_, 100);
  EXPECT_THAT(differences(), Contains(HasSubstr("open the file")));
}

}  // namespace
}  // namespace zero::checkpoint
