/**
 * The functions that users' SQL may call. An allow list: a function that a newer DuckDB adds is rejected until it has been reviewed.
 * Excluded on purpose: functions that read files, settings, variables, the environment, the catalog or sequences; run or prepare other SQL;
 * write logs; sleep; take a lambda (nested ones multiply memory that DuckDB does not count); or compare texts in quadratic time, which
 * cannot be interrupted.
 */

const operators = "+ - * / // % ** ^ & | && || << >> ~ @ ~~ ~~* !~~ !~~* ~~~ ^@ @> <@ <-> <=> ->> !__postfix";

const numbers = `abs acos acosh add asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot degrees divide even exp factorial fdiv
  floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf isnan lcm least least_common_multiple lgamma ln log log10 log2 mod
  multiply nextafter pi pow power radians random round round_even roundbankers sign signbit sin sinh sqrt subtract tan tanh trunc xor`;

const texts = `array_to_string ascii bit_length char_length character_length chr concat concat_ws contains ends_with format formatReadableDecimalSize
  formatReadableSize format_bytes ilike_escape instr lcase left length length_grapheme like_escape lower lpad ltrim nfc_normalize
  not_ilike_escape not_like_escape octet_length ord parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path position prefix
  printf regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array repeat replace
  reverse right rpad rtrim split split_part starts_with str_split str_split_regex string_split string_split_regex string_to_array strip_accents
  strlen strpos substr substring suffix translate trim ucase unicode upper url_decode url_encode`;

const encodings = `base64 bin decode encode from_base64 from_binary from_hex hash hex md5 md5_number sha1 sha256 to_base64 to_binary to_hex unbin
  unhex`;

const times = `age ago century current_date current_localtime current_localtimestamp date_add date_diff date_part date_sub date_trunc datediff
  datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era
  get_current_time get_current_timestamp hour isodow isoyear julian last_day make_date make_time make_timestamp make_timestamp_ms
  make_timestamp_ns make_timestamptz microsecond millennium millisecond minute month monthname nanosecond normalized_interval now quarter
  second strftime strptime time_bucket timezone timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds
  to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years today transaction_timestamp
  try_strptime week weekday weekofyear year yearweek`;

const lists = `array_append array_cat array_concat array_contains array_distinct array_extract array_has array_has_all array_has_any array_indexof
  array_intersect array_length array_pop_back array_pop_front array_position array_prepend array_push_back array_push_front array_reverse
  array_reverse_sort array_slice array_sort array_unique array_value array_where array_zip flatten generate_series len list_any_value
  list_append list_approx_count_distinct list_avg list_bool_and list_bool_or list_cat list_concat list_contains list_count list_distinct
  list_element list_entropy list_extract list_first list_has list_has_all list_has_any list_histogram list_indexof list_intersect
  list_kurtosis list_last list_mad list_max list_median list_min list_mode list_pack list_position list_prepend list_product list_reverse
  list_reverse_sort list_select list_sem list_skewness list_slice list_sort list_stddev_pop list_stddev_samp list_sum list_unique list_value
  list_var_pop list_var_samp list_where list_zip range unnest unpivot_list`;

const structures = `cardinality element_at map map_concat map_contains map_contains_entry map_contains_value map_entries map_extract
  map_extract_value map_from_entries map_keys map_values row struct_concat struct_contains struct_extract struct_extract_at struct_has
  struct_indexof struct_insert struct_keys struct_pack struct_position struct_update struct_values union_extract union_tag`;

const json = `array_to_json json json_array json_array_length json_contains json_exists json_extract json_extract_path json_extract_path_text
  json_extract_string json_group_array json_group_object json_keys json_merge_patch json_object json_quote json_structure json_type json_valid
  json_value row_to_json to_json`;

const others = "alias gen_random_uuid nullif pg_typeof typeof uuid uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 version";

const aggregates = `any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null arg_max_nulls_last arg_min
  arg_min_null arg_min_nulls_last argmax argmin array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count count_if count_star countif
  covar_pop covar_samp entropy favg first fsum geomean geometric_mean group_concat histogram histogram_exact kahan_sum kurtosis kurtosis_pop
  last list listagg mad max max_by mean median min min_by mode product quantile quantile_cont quantile_disc regr_avgx regr_avgy regr_count
  regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy sem skewness stddev stddev_pop stddev_samp string_agg sum sum_no_overflow
  sumkahan var_pop var_samp variance wavg weighted_avg`;

const windows = "cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank rank_dense row_number";

const words = (text: string): string[] => text.split(/\s+/).filter((word) => word !== "");

/** Scalar, aggregate and window functions and operators, in lower case. */
export const allowedFunctions: ReadonlySet<string> = new Set(
  [operators, numbers, texts, encodings, times, lists, structures, json, others, aggregates, windows]
    .flatMap(words)
    .map((name) => name.toLowerCase()),
);

/** Functions allowed in FROM. All of them produce rows lazily. */
export const allowedTableFunctions: ReadonlySet<string> = new Set(["range", "generate_series", "unnest"]);
