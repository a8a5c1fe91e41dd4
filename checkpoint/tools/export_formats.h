#pragma once

/// The two formats of export_parameters().

#include "checkpoint/tools/export.h"
#include "checkpoint/tools/export_tensors.h"

namespace zero::checkpoint {

void export_safetensors(const Reader& reader, FileSystem& files, const std::string& path,
                        const ExportOptions& options, const ExportContent& content,
                        ExportResult& result);

void export_hdf5(const Reader& reader, FileSystem& files, const std::string& path,
                 const ExportOptions& options, const ExportContent& content, ExportResult& result);

}  // namespace zero::checkpoint
