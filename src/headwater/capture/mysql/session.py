"""What a session must not take over from its server, which may begin it with anything; for `connection`.

Times are those of UTC, modes change no zero date and no padded text, and no result is cut off, by rows or by
time. MariaDB does not read the first comment, MySQL not the second.
"""

SESSION = """SET time_zone = '+00:00', sql_mode = '', character_set_results = 'utf8mb4',
 sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_auto_is_null = 0
 /*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"""
