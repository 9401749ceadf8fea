'probe/' || json_array(service, queue, kind)
