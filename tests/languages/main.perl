use JSON;
print 6 * 7, " 北京 ", encode_json([3, 1]), "\n";
